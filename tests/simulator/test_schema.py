"""Schemas: columns, headers and files of catalogues."""

from collections import Counter

import pytest

from navi.simulator.draws import Draws
from navi.simulator.headers import HEADERS
from navi.simulator.schema import CONSTANT_CONCEPTS, Column, choose_schemas


@pytest.fixture(scope="module", params=range(5))
def schemas(request):
    return choose_schemas(Draws(request.param), 14, 0.1)


def test_no_catalogue_repeats_a_header(schemas):
    for schema in schemas:
        headers = [column.header for column in schema.columns]
        assert len(set(headers)) == len(headers), schema.name


def test_no_header_is_both_a_cell_and_a_group(schemas):
    for schema in schemas:
        groups = {column.path[0] for column in schema.columns if len(column.path) > 1}
        cells = {column.path[0] for column in schema.columns if len(column.path) == 1}
        assert not groups & cells, schema.name


def test_every_catalogue_has_a_title_and_a_date_and_enough_columns(schemas):
    for schema in schemas:
        concepts = set(schema.concepts.values())
        assert "title" in concepts
        assert concepts & {"release_year", "release_date"}
        assert 9 <= len(schema.columns) <= 30


def test_every_concept_is_in_several_catalogues(schemas):
    counts = Counter(concept for schema in schemas for concept in set(schema.concepts.values()))
    rare = {"character", "best_score", "currency"}
    assert counts.keys() >= HEADERS.keys() - rare
    assert min(counts[concept] for concept in HEADERS.keys() - rare) >= 3


def test_the_same_concept_has_many_headers(schemas):
    titles = {column.header.lower() for schema in schemas for column in schema.columns if column.concept == "title"}
    assert len(titles) >= 6


def test_column_sets_differ(schemas):
    assert len({frozenset(schema.concepts.values()) for schema in schemas}) == len(schemas)


def test_files_are_of_every_kind(schemas):
    assert {schema.suffix for schema in schemas} == {
        *(".csv", ".csv.gz", ".tsv", ".tsv.gz"),
        *(".jsonl", ".jsonl.gz", ".parquet"),
    }


def test_only_json_is_nested(schemas):
    nested = {schema.suffix for schema in schemas for column in schema.columns if column.shape in ("list", "objects")}
    grouped = {schema.suffix for schema in schemas for column in schema.columns if len(column.path) > 1}
    assert grouped
    assert nested | grouped <= {".jsonl", ".jsonl.gz"}


def test_titles_ids_and_constants_have_no_gaps(schemas):
    columns = [column for schema in schemas for column in schema.columns]
    always = [column for column in columns if column.concept in CONSTANT_CONCEPTS | {"title", "id"}]
    assert {column.gap_rate for column in always} == {0.0}
    others = [column.gap_rate for column in columns if column.concept == "director"]
    assert all(0.03 < rate < 0.17 for rate in others)


def test_names_stay_unique_beyond_those_prepared():
    schemas = choose_schemas(Draws(0), 40, 0.1)
    assert len({schema.name for schema in schemas}) == 40


def test_lists_of_objects_flatten_to_indexed_headers():
    column = Column(concept="actor", path=("cast",), shape="objects", keys=("name", "role"))
    assert dict(column.flat_headers()) == {
        **{"cast.0.name": "actor", "cast.1.name": "actor", "cast.2.name": "actor"},
        **{"cast.0.role": "character", "cast.1.role": "character", "cast.2.role": "character"},
    }


def test_lists_of_genres_have_two_members():
    column = Column(concept="genre", path=("about", "genres"), shape="list")
    assert dict(column.flat_headers()) == {"about.genres.0": "genre", "about.genres.1": "genre"}


def test_narrow_catalogues_have_about_half_the_columns_and_still_a_title():
    usual, narrow = choose_schemas(Draws(0), 14, 0.1), choose_schemas(Draws(0), 14, 0.1, 0.5)
    columns = [sum(len(schema.columns) for schema in schemas) for schemas in (usual, narrow)]
    assert 0.4 < columns[1] / columns[0] < 0.65
    assert all("title" in schema.concepts.values() for schema in narrow)
