"""Simulated film catalogues: their rows, gaps, slips, schemas and files, and the truth about them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import defaultdict

import pytest

from navi.errors import ConfigError, TableError
from navi.simulator import SimulatorConfig, Truth, simulate, write_catalogues
from navi.tables import read_tables

SMALL = SimulatorConfig(rows_per_catalogue=60, gap_rate=0.1)
NUM_ROWS = 14 * 40
"""Concepts that are typed in by hand, so that slips happen."""


@pytest.fixture(scope="module")
def world():
    return simulate(SMALL)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("catalogues")
    return folder, write_catalogues(folder, SimulatorConfig(num_rows=NUM_ROWS))


def leaves(node, header=""):
    """Header and text of each leaf of a row, as a reader that lays nested cells flat sees them."""
    if isinstance(node, dict):
        return [leaf for key, cell in node.items() for leaf in leaves(cell, f"{header}.{key}" if header else key)]
    if isinstance(node, list):
        return [leaf for place, cell in enumerate(node) for leaf in leaves(cell, f"{header}.{place}")]
    return [(header, str(node))]


def having(world, *concepts):
    """The catalogues that have columns of all these meanings."""
    return [table for table in world.catalogues if {*concepts} <= {*table.concepts.values()}]


# Rows and films


def test_the_rows_add_up_each_about_a_film_of_its_own_under_known_headers(world):
    sizes = [len(table.rows) for table in world.catalogues]
    for table in world.catalogues:
        assert len(table.row_films) == len(set(table.row_films)) == len(table.rows)
        assert {header for row in table.rows for header, _ in leaves(row)} == table.concepts.keys(), table.name
    assert sum(sizes) == 14 * 60
    assert min(sizes) >= 1
    assert len(set(sizes)) > 5


# Schemas


def test_no_two_catalogues_have_the_same_schema_and_a_meaning_has_many_headers(world):
    assert len({frozenset(table.concepts) for table in world.catalogues}) == len(world.catalogues)
    titles = {header for table in world.catalogues for header, concept in table.concepts.items() if concept == "title"}
    assert len(titles) > 5


@pytest.mark.parametrize("concept", ["release_date", "runtime", "user_score", "certificate", "country", "genre"])
def test_the_same_fact_is_written_in_several_ways(concept):
    films = defaultdict(set)
    for table in having(simulate(SimulatorConfig(rows_per_catalogue=60, gap_rate=0.0)), concept):
        header = next(header for header, meaning in table.concepts.items() if meaning == concept)
        for film, row in zip(table.row_films, table.rows, strict=True):
            films[film].add(dict(leaves(row)).get(header))
    assert max(map(len, films.values())) > 2


# Gaps and slips


def test_gaps_fill_in_to_the_world_without_gaps():
    full = simulate(SimulatorConfig(rows_per_catalogue=60, gap_rate=0.0, typo_rate=0.0))
    holed = simulate(SimulatorConfig(rows_per_catalogue=60, gap_rate=0.3, typo_rate=0.0))
    for whole, table in zip(full.catalogues, holed.catalogues, strict=True):
        assert not whole.gaps
        for place, (complete, row) in enumerate(zip(whole.rows, table.rows, strict=True)):
            missing = {header: text for (number, header), text in table.gaps.items() if number == place}
            assert not missing.keys() & dict(leaves(row)).keys()
            assert dict(leaves(row)) | missing == dict(leaves(complete))


# Settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_rows": 3}, "num_rows must give each catalogue a row, got 3 for 14 catalogues"),
        ({"num_catalogues": 0}, "num_catalogues must be at least 1, got 0"),
        ({"gap_rate": 0.6}, "gap_rate must lie between 0 and 0.5, got 0.6"),
        ({"width": 0.0}, "width must lie between 0.1 and 1, got 0.0"),
    ],
)
def test_settings_that_make_no_world_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        simulate(SimulatorConfig(**settings))


# Files


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def drop_zero(text):
    return text.removesuffix(".0")


def test_the_files_hold_the_rows_of_the_world_in_memory(written):
    world = {table.name: table for table in simulate(SimulatorConfig(num_rows=NUM_ROWS)).catalogues}
    tables = read_tables([written[0]], whole=True)
    assert tables.keys() == world.keys()
    suffixes = {path.name.split(".", 1)[1] for path in written[0].iterdir()}
    assert suffixes == {"csv", "csv.gz", "tsv", "tsv.gz", "jsonl", "jsonl.gz", "parquet"}
    for name, table in tables.items():
        # A typed file has 3.0 as the number that it is, read as 3.
        rows = [{header: drop_zero(cell) for header, cell in row.items() if cell} for row in table.text.to_pylist()]
        assert rows == [{header: drop_zero(cell) for header, cell in leaves(row)} for row in world[name].rows], name
        assert table.row_number[0] == written[1].first_place[name]


def test_the_same_settings_write_the_same_bytes_in_another_process(written, tmp_path):
    script = (
        "import sys, navi.simulator as s; s.write_catalogues(sys.argv[1], s.SimulatorConfig(num_rows=int(sys.argv[2])))"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": path}
    command = [sys.executable, "-c", script, str(tmp_path / "again"), str(NUM_ROWS)]
    subprocess.run(command, env=environment, check=True)
    assert digests(tmp_path / "again") == digests(written[0])


# The truth


@pytest.fixture
def truth():
    return Truth(
        concepts={("a", "cast.0.name"): "actor", ("a", "title"): "title", ("b", "film"): "title"},
        gaps={("a", 0, "title"): "Zélie's Mask", ("b", 7, "film"): "118"},
        films={"a": [5, 9, 2], "b": [2, 4, 5]},
        first_place={"a": 1, "b": 2},
    )


def test_the_truth_says_what_columns_mean_and_which_rows_share_a_film_and_is_loaded_as_saved(truth, tmp_path):
    truth.save(tmp_path / "truth.json")
    assert Truth.load(tmp_path / "truth.json") == truth
    assert truth.concept_of("a", "cast.2.name") == "actor"  # later members of a list mean what the first does
    assert truth.concept_of("b", "title") is None
    assert truth.shared_rows("a", "b") == [(0, 2), (2, 0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"concepts": {}}', r"Cannot read .*truth\.json: .gaps.\. Expected what Truth\.save"),
        ("title,year", "Cannot read"),
    ],
)
def test_a_file_that_is_no_truth_is_refused(text, message, tmp_path):
    (tmp_path / "truth.json").write_text(text)
    with pytest.raises(TableError, match=message):
        Truth.load(tmp_path / "truth.json")
