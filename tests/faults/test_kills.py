"""Verbs killed at any of their writes or at any moment: inputs stay, outputs are whole, the same command goes on."""

from __future__ import annotations

import random
import shutil
import signal

import pytest

INPUTS = ("tables", "gaps.csv", "backbone", "corpus", "model", "mapping.json", "fast.toml")
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
    "search": ("search tables --model model --like title=night --index new-index", "new-index", ""),
    "search without index": ("search tables --model model --like title=night", "", ""),
    "pretrain": (f"pretrain corpus {RUN}", "run/model.safetensors run/config.json", "--resume"),
    "pretrain --overwrite": (f"pretrain corpus {RUN} --overwrite", "run/model.safetensors run/config.json", ""),
}
"""For each verb the command, what it writes, and what goes on after it was killed."""


@pytest.fixture
def trial(place, run_process, contents, tally, monkeypatch):
    """Run a verb killed somewhere; return how many writes it makes. What must hold afterwards is checked."""
    (place / "out").mkdir()
    (place / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(place / "tmp"))
    before = contents(place, *INPUTS)

    def clear(written: str) -> None:
        for name in written.split():
            top = place / name.split("/")[0]
            shutil.rmtree(top, ignore_errors=True) if top.is_dir() else top.unlink(missing_ok=True)
        (place / "out").mkdir(exist_ok=True)

    def run(verb: str, **how: object) -> int:
        command, written, again = VERBS[verb]
        arguments = command.split()
        if "--overwrite" in verb:  # something of another seed is there already
            clear(written)
            earlier = [each for each in arguments if each != "--overwrite"] + ["--seed", "2"]
            assert run_process(place, *earlier).code == 0
            old = contents(place, *written.split())
        else:
            clear(written)
            old = {}
        killed = run_process(place, *arguments, **how)
        tally[f"kills: {verb}"] += killed.code == -signal.SIGKILL
        assert killed.code in (0, -signal.SIGKILL), killed.output
        assert contents(place, *INPUTS) == before
        found = contents(place, *written.split())
        if killed.code:
            resumed = run_process(place, *arguments, *again.split())
            assert resumed.code == 0, resumed.output
        whole = contents(place, *written.split())
        if not verb.startswith("pretrain"):  # which writes its folder in place, the record last
            for name, content in found.items():
                # Shards stand beside notes of what is begun, which go when all are there.
                assert content in (old.get(name), whole.get(name, content)), f"{name} is neither what it was nor whole"
        left = [path for path in place.rglob("*") if path.name.startswith(".navi")]
        assert not left, f"left behind: {left}"
        assert not list((place / "tmp").iterdir())
        expected = wholes.setdefault(verb, whole)
        assert whole == expected, "what the second run made differs from what one alone makes"
        return killed.writes

    wholes: dict[str, dict[str, bytes]] = {}
    return run


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_killed_at_some_of_its_writes_loses_nothing(verb, trial):
    writes = trial(verb)
    draw = random.Random(verb)
    trial(verb, at=draw.randrange(writes))


@pytest.mark.long
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_killed_at_its_writes_one_after_the_other_loses_nothing(verb, trial):
    writes = trial(verb)
    for at in sorted(random.Random(verb).sample(range(writes), min(60, writes))):
        trial(verb, at=at)


@pytest.mark.long
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_killed_at_any_moment_loses_nothing(verb, trial):
    draw = random.Random(verb)
    trial(verb)
    for _ in range(20):
        trial(verb, after=draw.uniform(0.05, 1.5))
