"""Files: catalogues on disk."""

import csv
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from navi.simulator import SimulatorConfig, simulate, write_catalogues

NUM_ROWS = 14 * 40


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("catalogues")
    return folder, write_catalogues(folder, num_rows=NUM_ROWS)


def read_rows(path):
    """The rows of a file as dictionaries, absent cells left out, read with other people's readers."""
    if path.suffix == ".parquet":
        rows = pq.read_table(path).to_pylist()
        return [{key: str(cell) for key, cell in row.items() if cell is not None} for row in rows]
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    if ".jsonl" in path.suffixes:
        rows = [json.loads(line) for line in text.splitlines()]
        return [{key: cell for key, cell in row.items() if cell is not None} for row in rows]
    delimiter = "\t" if ".tsv" in path.suffixes else ";" if path.name.startswith("arthouse") else ","
    return [
        {key: cell for key, cell in row.items() if cell}
        for row in csv.DictReader(io.StringIO(text), delimiter=delimiter)
    ]


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def test_the_files_hold_the_rows_of_the_world_in_memory(written):
    folder, _ = written
    tables = {path.name.split(".")[0]: read_rows(path) for path in folder.iterdir()}
    world = simulate(SimulatorConfig(num_rows=NUM_ROWS))
    assert tables.keys() == {table.name for table in world.catalogues}
    for table in world.catalogues:
        nested = any(isinstance(cell, (dict, list)) for row in table.rows for cell in row.values())
        flat = [{key: str(cell) for key, cell in row.items()} for row in table.rows]
        found = tables[table.name]
        as_text = [{key: str(cell) for key, cell in row.items()} for row in found]
        assert (found == table.rows) if nested else (as_text == flat), table.name


def test_the_truth_is_that_of_the_world_in_memory(written):
    _, truth = written
    expected = simulate(SimulatorConfig(num_rows=NUM_ROWS)).truth
    assert (truth.concepts, truth.gaps, truth.films) == (expected.concepts, expected.gaps, expected.films)


def test_the_first_row_stands_below_the_headers_of_a_text_table(written):
    folder, truth = written
    for path in folder.iterdir():
        is_text = ".csv" in path.suffixes or ".tsv" in path.suffixes
        assert truth.first_place[path.name.split(".")[0]] == (2 if is_text else 1)


def test_parquet_keeps_numbers_as_numbers(written):
    folder, _ = written
    schema = pq.read_schema(folder / "celluloid_register.parquet")
    kinds = {str(kind) for kind in schema.types}
    assert kinds >= {"int64", "string"}


def test_the_same_settings_write_the_same_bytes(written, tmp_path):
    write_catalogues(tmp_path / "again", num_rows=NUM_ROWS)
    assert digests(tmp_path / "again") == digests(written[0])


def test_another_seed_writes_other_bytes(written, tmp_path):
    write_catalogues(tmp_path / "other", num_rows=NUM_ROWS, seed=1)
    other, first = digests(tmp_path / "other"), digests(written[0])
    assert all(other[name] != first[name] for name in first)


def test_the_order_of_sets_and_dictionaries_changes_no_byte(written, tmp_path):
    script = "import sys, navi.simulator as s; s.write_catalogues(sys.argv[1], num_rows=int(sys.argv[2]))"
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": path}
    command = [sys.executable, "-c", script, str(tmp_path / "hashed"), str(NUM_ROWS)]
    subprocess.run(command, env=environment, check=True)
    assert digests(tmp_path / "hashed") == digests(written[0])


def test_compressed_files_carry_no_time(written):
    for path in written[0].glob("*.gz"):
        assert path.read_bytes()[4:8] == b"\0\0\0\0", path.name


def test_the_truth_remembers_as_many_rows_as_asked_for(written, tmp_path):
    _, full = written
    short = write_catalogues(tmp_path / "short", num_rows=NUM_ROWS, truth_rows=5)
    assert short.films == {table: films[:5] for table, films in full.films.items()}
    assert short.gaps == {gap: text for gap, text in full.gaps.items() if gap[1] < 5}
    assert short.concepts == full.concepts


def test_the_number_of_catalogues_is_free(tmp_path):
    truth = write_catalogues(tmp_path, num_rows=60, num_catalogues=20)
    assert len(list(tmp_path.iterdir())) == len(truth.films) == 20


def test_a_larger_world_has_more_distinct_names(tmp_path):
    def directors(num_rows):
        folder = tmp_path / str(num_rows)
        truth = write_catalogues(folder, num_rows=num_rows, num_catalogues=1)
        header = next(header for (_, header), concept in truth.concepts.items() if concept == "director")
        return len({row.get(header) for row in read_rows(folder / "reelbase.csv")})

    assert directors(6000) > 4 * directors(600)


def test_the_simulator_loads_nothing_heavy():
    script = "import sys, navi.simulator; print([m for m in ('torch', 'pyarrow', 'pandas') if m in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
