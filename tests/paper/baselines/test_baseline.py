"""What all baselines share."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from navi.errors import ConfigError, ModelError
from navi_paper.baselines import BASELINES, load_baseline
from navi_paper.baselines.bert import Bert
from navi_paper.baselines.cm2 import Cm2
from navi_paper.encoder import PARTS, Hidden, list_cells

each_baseline = pytest.mark.parametrize("name", BASELINES)
each_part = pytest.mark.parametrize("part", ["header", "value"])
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@each_baseline
def test_rows_together_are_embedded_as_rows_one_by_one_in_the_order_asked_for(name, make_baseline, make_arrays):
    baseline, arrays = make_baseline(name), make_arrays(cells=(0, 6))
    rows = np.array([7, 3, 20, 3, 11])
    together = baseline.embed(arrays, rows, parts=PARTS)
    alone = [baseline.embed(arrays, rows[i : i + 1], parts=PARTS) for i in range(len(rows))]
    for part in PARTS:
        assert together[part].dtype == np.float32
        np.testing.assert_allclose(together[part], np.concatenate([each[part] for each in alone]), **CLOSE)


@each_baseline
def test_the_mean_is_that_of_a_rows_cells(name, make_baseline, make_arrays):
    baseline, arrays = make_baseline(name), make_arrays()
    rows = np.arange(10)
    found = baseline.embed(arrays, rows, parts=("means", "segments"))
    row_C, _ = list_cells(arrays, rows)
    means = [found["segments"][row_C == row].mean(axis=0) for row in range(10)]
    np.testing.assert_allclose(found["means"], means, **CLOSE)


@each_baseline
def test_no_rows_have_no_embeddings(name, make_baseline, make_arrays):
    found = make_baseline(name).embed(make_arrays(), np.zeros(0, dtype=np.int64), parts=PARTS)
    assert {array.shape for array in found.values()} == {(0, 32)}


def test_an_unknown_part_is_refused(make_baseline, make_arrays):
    with pytest.raises(ConfigError, match=r"Unknown part 'columns'\. Expected some of rows, means"):
        make_baseline("bert").embed(make_arrays(), np.arange(2), parts=("columns",))


@each_baseline
@each_part
def test_what_is_hidden_leaves_no_trace(name, part, make_baseline, make_arrays):
    baseline, arrays = make_baseline(name), make_arrays()
    rows = np.arange(8)
    row_C, _ = list_cells(arrays, rows)
    hidden = Hidden(part=part, cells=np.ones(len(row_C), dtype=bool))
    tokens = getattr(arrays, f"{part}_tokens")
    others = replace(arrays, **{f"{part}_tokens": (tokens + 17) % 150 + 6})
    before, after, shown = (
        baseline.embed(some, rows, parts=PARTS, hidden=hiding)
        for some, hiding in ((arrays, hidden), (others, hidden), (others, None))
    )
    for each in PARTS:
        np.testing.assert_allclose(before[each], after[each], **CLOSE)
        assert not np.allclose(after[each], shown[each], atol=1e-2)


@each_baseline
def test_only_the_hidden_cells_are_hidden(name, make_baseline, make_arrays):
    baseline, arrays = make_baseline(name), make_arrays()
    rows = np.arange(8)
    row_C, _ = list_cells(arrays, rows)
    hidden = Hidden(part="value", cells=row_C == 5)
    before, after = (baseline.embed(arrays, rows, hidden=some)["rows"] for some in (None, hidden))
    same = [bool(np.allclose(before[row], after[row], **CLOSE)) for row in rows]
    assert same == [row != 5 for row in range(8)]


@each_baseline
def test_reconstruction_is_a_cosine_for_each_hidden_cell(name, make_baseline, make_arrays):
    baseline, arrays = make_baseline(name), make_arrays()
    rows = np.arange(8)
    cells = np.arange(len(list_cells(arrays, rows)[0])) % 3 == 0
    for part in ("header", "value"):
        cosines = baseline.reconstruct(arrays, rows, Hidden(part=part, cells=cells))
        assert cosines.shape == (cells.sum(),)
        assert (np.abs(cosines) <= 1.0001).all()


@each_baseline
def test_a_baseline_read_from_its_folder_embeds_as_before(name, make_baseline, make_arrays, tmp_path):
    baseline, arrays = make_baseline(name), make_arrays()
    baseline.save(tmp_path)
    again = load_baseline(tmp_path, device="cpu")
    assert type(again) is type(baseline)
    expected, found = (each.embed(arrays, np.arange(6), parts=PARTS) for each in (baseline, again))
    for part in PARTS:
        assert np.array_equal(found[part], expected[part])
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".json", ".safetensors"]


@each_baseline
def test_half_precision_gives_nearly_the_same(name, study, lesson):
    rows = lesson.rows_of("test")
    exact, rough = (
        load_baseline(study(name), device="cpu", precision=precision).embed(lesson.arrays, rows, parts=PARTS)
        for precision in ("float32", "bfloat16")
    )
    for part in PARTS:
        cosines = (exact[part] * rough[part]).sum(1)
        cosines /= np.linalg.norm(exact[part], axis=1) * np.linalg.norm(rough[part], axis=1)
        assert cosines.min() > 0.99


def test_an_unknown_precision_is_refused(study):
    with pytest.raises(ConfigError, match="Unknown precision 'int8'"):
        load_baseline(study("bert"), device="cpu", precision="int8")


def test_another_kind_of_baseline_is_refused(study):
    with pytest.raises(ModelError, match="holds the baseline 'bert', expected 'cm2'"):
        Cm2.load(study("bert"))


def test_a_folder_of_another_format_is_refused(study, tmp_path):
    folder = shutil.copytree(study("bert"), tmp_path / "bert")
    record = json.loads((folder / "baseline.json").read_text())
    (folder / "baseline.json").write_text(json.dumps(record | {"format": 99}))
    with pytest.raises(ModelError, match="has the format 99, but only 1 is known"):
        load_baseline(folder)


def test_a_folder_that_is_no_baseline_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"Cannot read .*baseline\.json"):
        load_baseline(tmp_path)


def test_damaged_weights_are_refused(study, tmp_path):
    folder = shutil.copytree(study("bert"), tmp_path / "bert")
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ModelError, match=r"Cannot read .*model\.safetensors"):
        Bert.load(folder)


def test_a_corpus_of_another_vocabulary_is_refused(corpus, tiny_backbone, tmp_path):
    folder = shutil.copytree(tiny_backbone, tmp_path / "other")
    file = folder / "tokenizer.json"
    file.write_text(file.read_text().replace('"film":', '"flim":'))
    with pytest.raises(ModelError, match="tokenised with another vocabulary"):
        Bert.from_backbone(folder, corpus.tokenizer)
