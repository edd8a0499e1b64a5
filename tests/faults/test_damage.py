"""Files of ours with bytes flipped, cut short or with other JSON in them: one line, or the same answer as before."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest
from safetensors.torch import load_file
from typer.testing import CliRunner

from navi.cli import app

ASKED = {
    "corpus": "inspect corpus --json",
    "model": "name gaps.csv --model model --columns * --device cpu --json",
    "packed": "name gaps.csv --model packed --columns * --device cpu --json",
    "index": "search tables --model model --like title=night --index index --device cpu --json",
    "mapping.json": "prepare tables -o other --overwrite --backbone backbone --attributes mapping.json --json",
    "results": "report results --tables page.md --overwrite --json",
}
"""What is damaged, and the command that reads it."""
ODD = (None, True, -1, 0, 10**7, 10**30, 1.5, 1e308, float("nan"), "", "x", [], {}, [[]], {"a": {"b": []}}, "9" * 5000)
"""What is put in the place of entries."""
LONGEST = 20
"""Seconds of the processor that a verb may take."""


@pytest.fixture(scope="module")
def stage(workshop, pack_base, tmp_path_factory):
    """The workshop with a model packed like the one that comes along."""
    folder = shutil.copytree(workshop, tmp_path_factory.mktemp("damage") / "stage")
    weights = load_file(folder / "model" / "model.safetensors")
    (folder / "packed").mkdir()
    pack_base["pack_weights"](weights, folder / "packed")
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(folder / "model" / name, folder / "packed")
    pack_base["write_manifest"](folder / "packed")
    return folder


@contextmanager
def within(seconds: int):
    """Fail where something takes longer."""

    def fail(number, frame):
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@pytest.fixture
def ask(stage, monkeypatch, tally):
    """Run a command in this process; an error must be one line, a success is returned without what chance decides."""
    from navi.model import backbone

    monkeypatch.chdir(stage)

    def run(command: str) -> object:
        backbone.list_files.cache_clear()
        with within(LONGEST):
            result = CliRunner().invoke(app, command.split())
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        if result.exit_code:
            lines = [line for line in result.stderr.splitlines() if line.startswith("navi: ")]
            assert len(lines) == 1, result.output
            assert result.exit_code in (1, 2)
            tally["damage: refused in one line"] += 1
            return None
        tally["damage: the same answer as before"] += 1
        answer = json.loads(result.stdout)
        return {key: each for key, each in answer.items() if key != "seconds"} if isinstance(answer, dict) else answer

    return run


@contextmanager
def kept(path: Path):
    """Put a file back as it was, also one in a folder that was changed."""
    content, stat = path.read_bytes(), path.stat()
    try:
        yield content
    finally:
        path.write_bytes(content)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def list_targets(stage: Path, what: str) -> list[Path]:
    """Return the files that are damaged; a card and a log decide nothing."""
    if (stage / what).is_file():
        return [stage / what]
    quiet = ("README.md", "metrics.jsonl", "samples.txt", "report.html", "vocab.txt")
    return [file for file in sorted((stage / what).rglob("*")) if file.is_file() and file.name not in quiet]


def damage(content: bytes, draw: random.Random) -> bytes:
    """Return content with some bytes flipped, cut out, doubled or away, or with noise in the place of all of it."""
    data, place = bytearray(content), draw.randrange(max(1, len(content)))
    how = draw.randrange(6)
    if how == 0 and data:
        data[place] ^= 1 << draw.randrange(8)
    elif how == 1:
        del data[place:]
    elif how == 2:
        del data[place : place + draw.randrange(1, 50)]
    elif how == 3:
        data[place:place] = data[place : place + draw.randrange(1, 50)]
    elif how == 4:
        data[place : place + 8] = draw.randbytes(8)
    else:
        data = bytearray(draw.randbytes(draw.randrange(200)))
    return bytes(data)


def choose_place(content: object, draw: random.Random) -> tuple:
    """Return the path of an entry of JSON; those of long lists are no likelier than others."""
    path: tuple = ()
    while isinstance(content, dict | list) and content and draw.random() < 0.85:
        key = draw.choice(list(content)) if isinstance(content, dict) else draw.randrange(len(content))
        path, content = (*path, key), content[key]
    return path


def mutate(content: object, draw: random.Random) -> object:
    """Return JSON with one entry replaced, left out, renamed or doubled."""
    changed, path = copy.deepcopy(content), choose_place(content, draw)
    if not path:
        return draw.choice(ODD)
    *above, last = path
    parent = changed
    for key in above:
        parent = parent[key]
    how = draw.randrange(8)
    if how == 0:
        del parent[last]
    elif how == 1 and isinstance(parent, dict):
        parent[f"{last}x"] = parent.pop(last)
    elif how == 2 and isinstance(parent, list):
        parent.append(parent[last])
    else:
        parent[last] = draw.choice(ODD)
    return changed


def test_untouched_files_are_read(stage, ask):
    for command in ASKED.values():
        assert ask(command) is not None, command


def many(num):
    """Return a mark that tries a test so many times, and in the long run many times more."""
    return pytest.mark.parametrize("num", [num, pytest.param(25 * num, marks=pytest.mark.long)], ids=["few", "many"])


@many(20)
@pytest.mark.parametrize("what", [what for what in ASKED if what != "mapping.json"])
def test_changed_bytes_are_seen_or_change_nothing(stage, ask, tally, what, num):
    whole, draw = ask(ASKED[what]), random.Random(what)
    targets = list_targets(stage, what)
    for number in range(num):
        file = targets[number % len(targets)]
        with kept(file) as content:
            changed = damage(content, draw)
            if changed == content:
                continue
            file.write_bytes(changed)
            tally[f"damage: bytes of {what}"] += 1
            answer = ask(ASKED[what])
        assert answer in (None, whole), f"{file} was changed, and the answer with it"


@many(20)
@pytest.mark.parametrize(
    ("what", "unsigned"), [(what, flag) for what in ASKED for flag in (False, True) if flag or what != "mapping.json"]
)
def test_other_json_is_refused_in_one_line_or_changes_nothing_that_breaks(stage, ask, tally, what, unsigned, num):
    whole, draw = ask(ASKED[what]), random.Random(f"{what} {unsigned}")
    targets = [file for file in list_targets(stage, what) if file.suffix == ".json"]
    record = stage / what / "pretrain.json"
    for number in range(num):
        file = targets[number % len(targets)]
        with kept(file) as content, kept(record if record.is_file() else file) as signed:
            read = json.loads(content)
            if unsigned:  # as a version without checksums, or a person, might have written it
                read.pop("checksum", None)
                if record.is_file() and file != record:
                    others = {
                        key: each for key, each in json.loads(signed).items() if key not in ("checksum", "sha256")
                    }
                    record.write_text(json.dumps(others))
                elif "sha256" in read and file == record:
                    del read["sha256"]
            file.write_text(json.dumps(mutate(read, draw)))
            tally[f"damage: JSON of {what}"] += 1
            answer = ask(ASKED[what])
        assert unsigned or answer in (None, whole), f"{file} was changed, and the answer with it"


RUN = "pretrain corpus -o run --config fast.toml --max-steps 3 --from backbone"


@pytest.fixture(scope="module")
def stopped(stage, run_process):
    """A run that was killed after its last step, and the weights that it ends with."""
    writes = run_process(stage, *RUN.split()).writes
    whole = (stage / "run" / "model.safetensors").read_bytes()
    shutil.rmtree(stage / "run")
    assert run_process(stage, *RUN.split(), at=writes - 25).code == -signal.SIGKILL
    assert len(list((stage / "run" / "checkpoints").glob("step-*"))) > 1
    shutil.move(stage / "run", stage / "stopped")
    return whole


@pytest.mark.parametrize("num", [3, pytest.param(60, marks=pytest.mark.long)], ids=["few", "many"])
def test_a_damaged_checkpoint_is_refused_and_the_one_before_serves(stage, stopped, run_process, tally, num):
    draw = random.Random("checkpoints")
    for number in range(num):
        shutil.rmtree(stage / "run", ignore_errors=True)
        shutil.copytree(stage / "stopped", stage / "run")
        last = max((stage / "run" / "checkpoints").glob("step-*"))
        file = sorted(last.iterdir())[number % 3]
        file.write_bytes(damage(file.read_bytes(), draw))
        tally["damage: bytes of checkpoints"] += 1
        resumed = run_process(stage, *RUN.split(), "--resume")
        if resumed.code == 0:
            assert (stage / "run" / "model.safetensors").read_bytes() == stopped, f"{file} was changed, and the weights"
            continue
        assert "Delete it to go on from the one before." in resumed.output, resumed.output
        shutil.rmtree(last)
        if number < 3:
            assert run_process(stage, *RUN.split(), "--resume").code == 0
            assert (stage / "run" / "model.safetensors").read_bytes() == stopped
