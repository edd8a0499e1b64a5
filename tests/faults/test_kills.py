"""Verbs killed at and in any of their writes, and at any moment: inputs stay, outputs are whole, the same goes on."""

from __future__ import annotations

import random
import re
import shutil
import signal
import time

import pytest

RUN = "--from backbone --config fast.toml --max-steps 3 -o run"
VERBS = {
    "prepare": ("prepare tables -o new --backbone backbone", "new", "--overwrite"),
    "prepare --overwrite": ("prepare tables -o new --backbone backbone --seed 1 --overwrite", "new", ""),
    "inspect": ("inspect tables --backbone backbone --json", "", ""),
    "embed": ("embed tables --model model -o rows.parquet", "rows.parquet", "--overwrite"),
    "embed to shards": ("embed tables --model model -o rows", "rows", "--overwrite"),
    "impute": ("impute gaps.csv --model model -o out/filled.csv", "out", "--overwrite"),
    "name": ("name gaps.csv --model model --columns * --apply named.csv", "named.csv", "--overwrite"),
    "match": ("match tables --model model --csv columns.csv --mapping m.json", "columns.csv m.json", "--overwrite"),
    "unify": ("unify tables --model model -o all.parquet --write-spec s.toml", "all.parquet s.toml", "--overwrite"),
    "link": ("link tables/films0.jsonl tables/films1.jsonl --model model -o l.csv", "l.csv", "--overwrite"),
    "search": ("search tables --model model --like title=night --index new-index", "new-index", ""),
    "search without index": ("search tables --model model --like title=night", "", ""),
    "report": ("report results --tables page.md", "page.md", "--overwrite"),
    "pretrain": (f"pretrain corpus {RUN}", "run/model.safetensors run/config.json", "--resume"),
    "pretrain --overwrite": (f"pretrain corpus {RUN} --overwrite", "run/model.safetensors run/config.json", ""),
}
"""For each verb the command, what it writes, and what goes on after it was killed."""


class Trial:
    """A verb in a place of its own, run to its end once; then killed in any way, and what must hold is checked."""

    def __init__(self, verb, place, run_process, contents, tally):
        self.verb, self.place, self.contents, self.tally = verb, place, contents, tally
        self.command, written, self.again = VERBS[verb]
        self.written, self._process = written.split(), run_process
        self.inputs = frozenset(path.name for path in place.iterdir())
        self.before = contents(place, *self.inputs)
        self.begin()
        begun = time.perf_counter()
        self.num_writes = self.run().writes
        self.seconds = time.perf_counter() - begun
        self.whole = contents(place, *self.written)

    def run(self, *more, **how):
        ended = self._process(self.place, *self.command.split(), *more, **how)
        assert ended.code in (0, -signal.SIGKILL, -signal.SIGXFSZ), ended.output
        return ended

    def clear(self):
        for path in self.place.iterdir():
            if path.name not in self.inputs:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def begin(self):
        """Make the place as it is before the verb: with something of another seed where that is to be replaced."""
        self.clear()
        for name in ("out", "tmp"):
            (self.place / name).mkdir()
        self.old = {}
        if "--overwrite" in self.verb:
            earlier = [each for each in self.command.split() if each != "--overwrite"]
            assert self._process(self.place, *earlier, "--seed", "2").code == 0
            self.old = self.contents(self.place, *self.written)

    def check(self):
        """Check what a killed process has left, and that the same command goes on from there."""
        assert self.contents(self.place, *self.inputs) == self.before
        if not self.verb.startswith("pretrain"):  # which writes its folder in place, the record last
            for name, content in self.contents(self.place, *self.written).items():
                # Shards stand beside notes of what is begun, which go when all are there.
                allowed = (self.old.get(name), self.whole.get(name, content))
                assert content in allowed, f"{name} is neither what it was nor whole"
        resumed = self.run(*self.again.split())
        assert resumed.code == 0, resumed.output
        left = [path for path in self.place.rglob("*") if path.name.startswith(".navi")]
        assert not left, f"left behind: {left}"
        assert not list((self.place / "tmp").iterdir())
        assert self.contents(self.place, *self.written) == self.whole, (
            "the second run made something else than the first"
        )

    def kill(self, how, **fault):
        """Kill the verb, and check."""
        self.begin()
        if self.run(**fault).code:
            self.tally[f"killed {how}: {self.verb}"] += 1
            self.check()

    def list_states(self, folder):
        """Return copies of all that the verb leaves behind if it is killed before one of its writes, each once."""
        self.begin()
        self.run(states=folder, inputs=self.inputs)
        found = {}
        for state in sorted(folder.iterdir(), key=lambda path: int(path.name)):
            files = {
                path.relative_to(state).as_posix(): path.is_file() and path.read_bytes() for path in state.rglob("*")
            }
            found.setdefault(
                frozenset((re.sub(r"\.navi-\d+@\S+?-\w+", ".navi", name), files[name]) for name in files), state
            )
        self.tally[f"states at writes: {self.verb}"] += self.num_writes
        return list(found.values())

    def restore(self, state):
        """Make the place as a killed process left it."""
        self.clear()
        shutil.copytree(state, self.place, dirs_exist_ok=True, symlinks=True)


@pytest.fixture(params=VERBS)
def trial(request, place, run_process, contents, tally):
    return Trial(request.param, place, run_process, contents, tally)


def test_a_verb_killed_at_one_of_its_writes_loses_nothing(trial):
    trial.kill("at a write", at=random.Random(trial.verb).randrange(trial.num_writes))


@pytest.mark.parametrize("verb", ["embed to shards", "search"])
def test_what_is_left_by_a_kill_at_the_first_or_last_write_is_cleared_away(verb, place, run_process, contents, tally):
    """An empty folder that was just locked, and an index in its place beside what it was made in."""
    trial = Trial(verb, place, run_process, contents, tally)
    left = place / ("rows/.navi-1@vm-x" if verb != "search" else ".navi-1@vm-x")
    if verb != "search":
        trial.begin()
    left.mkdir(parents=True)
    trial.check()


@pytest.mark.long
def test_a_verb_killed_before_any_of_its_writes_loses_nothing(trial, tmp_path):
    (tmp_path / "states").mkdir()
    for state in trial.list_states(tmp_path / "states"):
        trial.restore(state)
        trial.check()
        trial.tally[f"killed before a write: {trial.verb}"] += 1


@pytest.mark.long
def test_a_verb_killed_in_a_write_or_at_any_moment_loses_nothing(trial):
    draw = random.Random(trial.verb)
    for _ in range(8):
        trial.kill("in a write", room=round(10 ** draw.uniform(1, 5.5)), deadly=True)
        trial.kill("at a moment", after=draw.uniform(0, trial.seconds))
