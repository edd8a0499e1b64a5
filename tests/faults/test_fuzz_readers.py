"""Damaged and hostile files of every format: no traceback, no hang, nothing lost without being counted.

    python tests/faults/test_fuzz_readers.py BEGIN END    reads inputs BEGIN to END, a line of counts at the end

Each input is a seed of `seeds/` (see `make_seeds.py`), changed by a mutator that its number decides.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.errors import TableError
from navi.tables import read_tables
from navi.tables.readreport import Loss

SEEDS = sorted((Path(__file__).parent / "seeds").iterdir())
IDS = [f"id{number:03}" for number in range(20)]
SLOWEST = 20.0
"""Seconds of processor time that reading one input may take."""
MEMORY = 8 << 30
"""Bytes of address space that a process which reads inputs may have."""
TOKENS = [b'"', b'""', b"'", b",", b";", b"\t", b"\n", b"\r", b"\r\n", b"{", b"}", b"[", b"]", b":", b"\\", b"\\u"]
TOKENS += [b"\0", b"null", b"NaN", b"1e999", b"-", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\x1b["]
TOKENS += [b"\xe2\x80\xae", b"<", b">", b"</c>", b"</row>", b"<!DOCTYPE a>", b'r="ZZZ9"', b't="d"', b"&#0;"]
TOKENS += [b"<v>x</v>"]
TOKENS += [b"sep=;\n", b"#", b"PAR1", b"ARROW1", b"PK\x03\x04", b"\x1f\x8b", b"\xff\xff\xff\xff", bytes(4096)]
TOKENS += [b"[" * 2000, b'{"a":' * 1500, b'"' * 999, b"x" * 70_000, b"," * 3000, b"\n" * 3000, b"9" * 5000]
EXTREMES = [bytes(8), b"\xff" * 8, b"\xff\xff\xff\x7f", b"\0\0\0\x80", bytes(7) + b"\x40", b"\x01" + bytes(7)]


# Changing a seed.


def mutate(content: bytes, draw: random.Random) -> bytes:
    """Return content with one to six changes."""
    for _ in range(draw.choice((1, 1, 1, 2, 3, 6))):
        content = change(content, draw.randrange(9), draw.randrange(len(content) + 1), draw)
    return content


def change(content: bytes, kind: int, place: int, draw: random.Random) -> bytes:
    """Return content with one change at a place."""
    before, after = content[:place], content[place:]
    length = draw.choice((1, 1, 2, 8, 40, 400))
    if kind == 0 and after:
        return before + bytes([after[0] ^ (1 << draw.randrange(8))]) + after[1:]
    if kind == 1:
        return before + draw.randbytes(1) + after[1:]
    if kind == 2:
        return before + after[length:]
    if kind == 3:
        return before + after[:length] + after
    if kind == 4:
        return before + draw.randbytes(length) + after
    if kind == 5:
        return before + draw.choice(TOKENS) + after
    if kind == 6:
        extreme = draw.choice(EXTREMES)
        return before + extreme + after[len(extreme) :]
    if kind == 7:
        other = draw.choice(SEEDS).read_bytes()
        start = draw.randrange(len(other))
        return before + other[start : start + length] + after
    return before if draw.random() < 0.3 else before + draw.choice(TOKENS) + after[length:]


def mutate_seed(seed: Path, draw: random.Random) -> tuple[bytes, bytes | None]:
    """Return a changed file, and its content where that is text and known; half of the time it is changed inside."""
    content = seed.read_bytes()
    inside = draw.random() < 0.5
    if seed.suffix == ".gz" and inside:
        text = mutate(gzip.decompress(content), draw)
        return gzip.compress(text, mtime=0), text
    if seed.suffix == ".zst" and inside:
        text = mutate(pa.CompressedInputStream(pa.BufferReader(content), "zstd").read(), draw)
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(text)
        return sink.getvalue().to_pybytes(), text
    if seed.suffix == ".xlsx" and inside:
        return mutate_part(content, draw), None
    changed = mutate(content, draw)
    return changed, changed if seed.suffix in (".csv", ".tsv", ".json", ".jsonl") else None


def mutate_part(content: bytes, draw: random.Random) -> bytes:
    """Return a workbook with one part changed."""
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as new:
        chosen = draw.choice(old.namelist())
        for name in old.namelist():
            new.writestr(name, mutate(old.read(name), draw) if name == chosen else old.read(name))
    return changed.getvalue()


# Reading it, and what must hold.


def list_rows(seed: Path) -> dict[str, bytes]:
    """Return the bytes of each row of a seed that is text."""
    content = seed.read_bytes()
    if seed.suffix == ".gz":
        content = gzip.decompress(content)
    elif seed.suffix == ".zst":
        content = pa.CompressedInputStream(pa.BufferReader(content), "zstd").read()
    encoding = {"western.csv": "cp1252", "wide.csv": "utf-16-le"}.get(seed.name, "utf-8")
    starts = [content.index(each.encode(encoding)) for each in IDS]
    ends = [*starts[1:], len(content)]
    if b"{" in content:
        starts = [content.rindex(b"{", 0, start) for start in starts]
        ends = [content.rindex(b"}", 0, end) + 1 for end in [*starts[1:], len(content)]]
    return {each: content[start:end].rstrip(b'\r\n\0"') for each, start, end in zip(IDS, starts, ends, strict=True)}


def check(seed: Path, content: bytes, text: bytes | None, folder: Path) -> str:
    """Read a changed seed, and return what became of it; what must not be is an AssertionError."""
    path = folder / seed.name
    path.write_bytes(content)
    try:
        tables = read_tables(path, keep_empty=True)
    except TableError as error:
        message = str(error)
    else:
        message = ""
    if message:
        assert "\n" not in message, f"an error of several lines: {message}"
        assert str(folder) in message, f"an error that does not name the file: {message}"
        return "refused"
    reports = [table.report for table in tables.values()]
    found = []
    for table in tables.values():
        num_rows = sum(chunk.num_rows for chunk in table.chunks)
        assert table.report.read == num_rows + table.report.dropped.total(), "rows do not add up"
        found += table.headers
        for column in table.text.columns:
            found += [cell for cell in column.to_pylist() if cell]
        assert table.to_arrow().num_rows == table.num_rows
    missing = find_missing("\n".join(found))
    lost = sum((report.dropped + report.cells for report in reports), Counter())
    places = {reason for report in reports for reason in report.places}
    if text is not None:
        # Rows whose bytes are all there must be read, or counted as lost.
        rows = list_rows(seed)
        whole = [each for each in missing if rows[each] in text]
        counted = sum(report.dropped.total() + report.cells[Loss.BEYOND_HEADER] for report in reports)
        # UTF-16 that falls out of step, or got into another text, garbles what is near; that is said, and not counted.
        is_wide = any(note.startswith("read as utf-16") for report in reports for note in report.notes)
        told = {Loss.ABOVE_HEADER, *([Loss.WRONG_ENCODING] if is_wide else [])} & places
        assert len(whole) <= counted or told, f"{whole} are lost, {lost} counted"
    elif missing and seed.suffix == ".gz":
        assert places, f"{missing} are lost without a word"
    else:
        num_rows = sum(report.read for report in reports)
        assert num_rows >= len(IDS) or places, f"{len(IDS) - num_rows} rows are lost without a word"
    return "with losses" if lost or places else "whole"


def find_missing(text: str) -> list[str]:
    return [each for each in IDS if each not in text]


def run(begin: int, end: int) -> None:
    """Read inputs by number, and print counts, the slowest, and what must not be."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    counts: Counter[str] = Counter()
    slowest, wrong = 0.0, []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(begin, end):
            draw = random.Random(number)
            seed = SEEDS[number % len(SEEDS)]
            content, text = mutate_seed(seed, draw)
            # Whoever waits knows by this which input it was that never came to an end.
            print(number, file=sys.stderr, flush=True)
            started = time.process_time()
            try:
                counts[check(seed, content, text, Path(folder))] += 1
            except Exception as error:  # noqa: BLE001
                wrong.append(f"{number} {seed.name}: {type(error).__name__}: {str(error)[:300]}")
            slowest = max(slowest, time.process_time() - started)
    print(json.dumps({"counts": counts, "slowest": slowest, "wrong": wrong}))


def fuzz(begin: int, end: int) -> dict[str, object]:
    """Read inputs in a process of their own, which may crash or hang, and return what it says."""
    command = [sys.executable, __file__, str(begin), str(end)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryFile("w+") as progress:
        try:
            patience = SLOWEST + 0.5 * (end - begin)
            pipes = {"stdout": subprocess.PIPE, "stderr": progress, "text": True}
            done = subprocess.run(command, **pipes, env=environment, timeout=patience, check=False)
            code: object = done.returncode
        except subprocess.TimeoutExpired:
            code = "no end"
        if code != 0:
            progress.seek(0)
            return {"counts": {}, "slowest": 0.0, "wrong": [f"exit code {code} after {progress.read()[-2000:]}"]}
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("num", [20 * len(SEEDS), pytest.param(10_000, marks=pytest.mark.long)], ids=["some", "many"])
def test_damaged_files_of_every_format_are_read_or_refused_and_nothing_is_lost_in_silence(num):
    for begin in range(0, num, 500):
        found = fuzz(begin, min(begin + 500, num))
        print(found["counts"], f"slowest {found['slowest']:.1f} s")
        assert found["wrong"] == []
        assert found["slowest"] < SLOWEST


CHANGES = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 2000), st.randoms(use_true_random=False)), max_size=4)
PLAIN = [seed for seed in SEEDS if seed.suffix in (".csv", ".tsv", ".json", ".jsonl")]


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.sampled_from(PLAIN), CHANGES)
def test_whatever_is_changed_in_a_text_file_nothing_is_lost_in_silence(tmp_path_factory, seed, changes):
    content = seed.read_bytes()
    for kind, place, draw in changes:
        content = change(content, kind, place, draw)
    check(seed, content, content, tmp_path_factory.mktemp("changed"))


def test_the_seeds_are_read_whole(tmp_path):
    for seed in SEEDS:
        assert check(seed, seed.read_bytes(), None, tmp_path) in ("whole", "with losses")
        assert find_missing(str([table.text.to_pylist() for table in read_tables(seed).values()])) == []


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]))
