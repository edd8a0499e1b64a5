from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from navi.cli.embed import Dtype, Kind, Pooling, Precision
from navi.model.runner import PRECISIONS
from navi.verbs.embedding import DTYPES, KINDS, POOLINGS


def test_the_choices_are_those_of_the_library():
    assert (tuple(Kind), tuple(Pooling), tuple(Dtype)) == (KINDS, tuple(POOLINGS), DTYPES)
    assert tuple(Precision) == tuple(PRECISIONS)


def test_vectors_in_int8_are_near_those_in_float32(model, tables, tmp_path, navi_command):
    found = {}
    for precision in ("float32", "int8"):
        out = tmp_path / f"{precision}.parquet"
        navi_command("embed", "--model", model, tables, "-o", out, "--precision", precision, "--normalize")
        found[precision] = np.stack(pq.read_table(out)["embedding"].to_numpy())
    assert not np.array_equal(found["int8"], found["float32"])
    assert (found["int8"] * found["float32"]).sum(axis=1).min() >= 0.99


def test_every_row_gets_a_vector(model, tables, tmp_path, navi_command):
    out = tmp_path / "rows.parquet"
    told = navi_command("embed", "--model", model, tables, "-o", out).stdout
    assert f"{out.name}: 90 vectors of 32 numbers" in told.replace("\n", "")
    assert "90 rows of 3 tables" in told
    assert pq.read_table(out).column_names == ["table", "row", "embedding"]


@pytest.mark.parametrize("kind", ["segments", "headers", "attributes"])
def test_other_things_get_vectors_too(kind, model, tables, tmp_path, navi_command):
    out = tmp_path / "out.parquet"
    flags = ("--kind", kind, "--dtype", "float16", "--normalize", "--json")
    told = json.loads(navi_command("embed", "--model", model, tables, "-o", out, *flags).stdout)
    written = pq.read_table(out)
    assert told["vectors"] == written.num_rows > 0
    assert (told["size"], told["path"]) == (32, str(out))
    assert str(written.schema.field("embedding").type.value_type) == "halffloat"


def test_what_was_lost_in_reading_is_told(model, tmp_path, navi_command):
    (tmp_path / "shop.jsonl").write_text('{"name": "red"}\n{broken\n')
    told = navi_command("embed", "--model", model, tmp_path / "shop.jsonl", "-o", tmp_path / "out.parquet").stdout
    assert "1 row: broken row" in told
    assert "shop.jsonl:2" in told


def test_quiet_says_nothing(model, tables, tmp_path, navi_command):
    assert navi_command("embed", "--model", model, tables, "-o", tmp_path / "out.parquet", "--quiet").output == ""


@pytest.mark.parametrize(
    ("wrong", "message"),
    [("nowhere", "No model at"), ("corpus", "is a corpus, not a model"), ("tables", "not a model")],
)
def test_a_path_that_is_no_model_is_explained(wrong, message, corpus, tables, tmp_path, navi_command):
    path = {"nowhere": tmp_path / "nowhere", "corpus": corpus, "tables": tables}[wrong]
    result = navi_command("embed", "--model", path, tables, "-o", tmp_path / "out.parquet", code=2)
    assert message in result.stderr.splitlines()[-1]
    assert not (tmp_path / "out.parquet").exists()


def test_a_folder_that_is_not_there_is_a_users_mistake(model, tables, tmp_path, navi_command):
    result = navi_command("embed", "--model", model, tables, "-o", tmp_path / "no" / "out.parquet", code=2)
    assert "there is no folder" in result.stderr


@pytest.mark.parametrize("name", ["rows.csv", "rows.npy", "rows"])
def test_a_name_that_promises_another_format_is_refused_before_any_work(name, tables, tmp_path, navi_command):
    result = navi_command("embed", "--model", tmp_path / "nowhere", tables, "-o", tmp_path / name, code=2)
    assert len(result.stderr.splitlines()) == 1
    assert f"{name}: vectors go to Parquet, so its suffix must be .parquet." in result.stderr
    assert not (tmp_path / name).exists()
