"""Tests of the tasks: encoders whose answers are known get the figures that they deserve."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi_paper.gold import name_columns
from navi_paper.table_encoder import list_cells, list_hidden_tokens
from navi_paper.table_views import permute_columns
from navi_paper.tasks import TASKS
from navi_paper.tasks.clustering import measure_b_cubed
from navi_paper.tasks.prediction import draw_cells

TASK = {task.name: task for task in TASKS}


@given(seed=st.integers(0, 10), share=st.floats(0.01, 1.0))
def test_a_share_of_each_row_is_chosen_and_at_least_one_cell(make_arrays, seed, share):
    arrays = make_arrays(seed=seed)
    chosen = np.bincount(arrays.cell_row[draw_cells(arrays, share, seed)], minlength=arrays.num_rows)
    counts = np.diff(arrays.row_offsets)
    assert np.array_equal(chosen, np.maximum(1, np.rint(share * counts)))


@given(seed=st.integers(0, 10))
def test_the_same_cells_are_chosen_whatever_the_order_of_columns(make_arrays, seed):
    arrays = make_arrays(seed=seed)
    permuted = permute_columns(arrays, seed=seed)

    def list_chosen(view):
        cells = draw_cells(view, 0.4, 7)
        return set(zip(view.cell_row[cells].tolist(), view.row_segments[cells].tolist(), strict=True))

    assert list_chosen(arrays) == list_chosen(permuted)


def test_who_knows_everything_gets_everything(data, encoders):
    measures = TASK["generative"](encoders.oracle, data).measures
    scores = [measures[name] for name in measures if name.endswith(("_token", "_exact")) and "frequent" not in name]
    assert scores == [1.0] * 2 * 12


def test_every_encoder_is_asked_for_the_same_cells(data, encoders):
    asked = []

    class AskedOracle(encoders.Oracle):
        def predict(self, arrays, rows, hidden):
            asked.append((hidden.part, hidden.blind, hidden.cells.tobytes(), arrays.row_segments.tobytes()))
            return super().predict(arrays, rows, hidden)

    TASK["generative"](AskedOracle(), data)
    first, asked = asked, []
    TASK["generative"](AskedOracle(), data)
    assert first == asked
    assert {(part, blind) for part, blind, *_ in first} == {("value", False), ("header", False), ("header", True)}


def turn(count):
    """Return unit vectors, and others whose cosines with them go evenly from 0 to 1."""
    cosine = np.linspace(0, 1, count, dtype=np.float32)
    return np.stack([cosine, np.sqrt(1 - cosine**2)], axis=1), np.tile(np.float32([1, 0]), (count, 1))


def test_quartiles_are_those_of_the_cosines_of_texts(data, encoders):
    numeric = data.numeric_columns

    class Half(encoders.Oracle):
        def reconstruct(self, arrays, rows, hidden):
            predicted, true = turn(int(hidden.cells.sum()))
            is_text = ~numeric[arrays.cell_column][hidden.cells]
            predicted[is_text] = turn(int(is_text.sum()))[0]
            predicted[~is_text] = -1.0  # numbers do not count
            return predicted, true

    measures = TASK["reconstruction"](Half(), data).measures
    quartiles = [measures[f"test_value_{name}"] for name in ("q1", "median", "q3")]
    assert quartiles == pytest.approx([0.25, 0.5, 0.75], abs=1e-3)


def test_what_is_to_be_guessed_is_the_header_as_it_was(data, encoders):
    asked = []

    class AnsweredOracle(encoders.Oracle):
        def predict(self, arrays, rows, hidden):
            true = super().predict(arrays, rows, hidden)
            asked.append(true.tolist())
            return true

    TASK["robustness"](AnsweredOracle(), data)
    default, permuted, *renamed = asked[:6]
    assert all(each == default for each in renamed)
    assert sorted(permuted) == sorted(default)


def test_who_leans_on_the_other_headers_loses_when_they_are_renamed(data, encoders):
    known = len(data.corpus.headers)

    class Leaner(encoders.Oracle):
        """Knows the hidden header as long as every header shown in the row is one of the corpus."""

        def predict(self, arrays, rows, hidden):
            true, lengths = list_hidden_tokens(arrays, rows, hidden)
            row_C, segments = list_cells(arrays, rows)
            strange = np.unique(row_C[(arrays.segment_header[segments] >= known) & ~hidden.cells])
            lost = np.isin(row_C[hidden.cells], strange)
            return np.where(np.repeat(lost, lengths), -1, true)

    measures = TASK["robustness"](Leaner(), data).measures
    assert measures["blind_permuted_loss"] == 0.0
    assert measures["blind_synonyms_loss"] > 0.0
    assert measures["blind_typos_any_loss"] > measures["blind_typos_loss"] > 0.0


def test_who_knows_what_columns_mean_clusters_them_exactly(data, encoders):
    names = sorted(set(data.gold.concepts.values()))
    meant = [data.gold.concepts.get(pair) for pair in zip(*name_columns(data.corpus), strict=True)]
    number_K = np.array([names.index(each) if each in names else len(names) for each in meant])

    class Knower(encoders.Oracle):
        """Embeds a cell as its concept."""

        def embed(self, arrays, rows, *, parts=("rows",), hidden=None):
            return dict.fromkeys(parts, self.draw(number_K[arrays.take_rows(rows).cell_column]))

    measures = TASK["clustering"](Knower(), data).measures
    for name in ("test_headers", "test_segments", "test_headers_permuted"):
        assert measures[f"{name}_nmi"] == pytest.approx(1.0)
        assert measures[f"{name}_b3_f1"] == 1.0
        assert measures[f"{name}_cosine"] == pytest.approx(0.0, abs=1e-6)
        assert measures[f"{name}_l2"] == pytest.approx(0.0, abs=1e-3)
        assert measures[f"{name}_silhouette"] == pytest.approx(1.0)


def count_together(gold, clusters):
    """Return the mean share of each item's cluster that is of its class."""
    shares = [np.mean(gold[clusters == cluster] == label) for label, cluster in zip(gold, clusters, strict=True)]
    return np.mean(shares)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=30))
def test_b_cubed_agrees_with_counting_pairs(pairs):
    gold, clusters = np.array(pairs).T
    precision, recall = count_together(gold, clusters), count_together(clusters, gold)
    f1 = 2 * precision * recall / (precision + recall)
    expected = {"b3_f1": f1, "b3_precision": precision, "b3_recall": recall}
    assert measure_b_cubed(gold, clusters) == pytest.approx(expected)


@pytest.fixture
def seen(data, encoders):
    """An encoder that notes the headers that it is shown, call after call."""
    headers = data.corpus.headers.to_pylist()

    class Seer(encoders.Oracle):
        def __init__(self):
            self.shown = []

        def embed(self, arrays, rows, *, parts=("rows",), hidden=None):
            _, segments = list_cells(arrays, rows)
            self.shown.append({headers[number] for number in arrays.segment_header[segments]})
            return super().embed(arrays, rows, parts=parts, hidden=hidden)

    return Seer()


def test_the_vectors_of_every_labelled_row_are_kept(data, encoders):
    arrays = TASK["row_vectors"](encoders.oracle, data).arrays
    more = TASK["variant_vectors"](encoders.oracle, data).arrays
    for kept in (arrays, *({key: more[f"{name}/{key}"] for key in arrays} for name in ("text_only", "partial_text"))):
        count = len(kept["row"])
        assert (kept["vectors_rows"].shape, kept["vectors_rows"].dtype) == ((count, encoders.Oracle.WIDTH), np.float16)
        assert kept["labels"].shape == kept["table"].shape == (count,)
        assert kept["row"].dtype == np.int64
        assert 0 not in data.corpus.row_split[kept["row"]], "no row was trained on"


def test_labels_and_what_reveals_them_are_never_shown(data, seen):
    TASK["row_vectors"](seen, data)
    TASK["variant_vectors"](seen, data)
    whole, text_only, _ = seen.shown
    assert whole == {"title", "year", "country", "language", "name", "date", "color"}
    assert text_only == whole - {"year", "date"}


def test_a_vector_is_the_mean_of_the_cells_that_are_texts_and_not_hidden(data, encoders):
    result = TASK["text_vectors"](encoders.oracle, data)
    headers = data.corpus.headers.to_pylist()
    texts = {"alpha": ("title", "country", "language"), "beta": ("name", "country", "color")}
    for row, vector in zip(result.arrays["row"], result.arrays["vectors"], strict=True):
        table = data.corpus.tables[data.corpus.arrays.row_table[row]]
        # The oracle embeds a cell as its header, whatever the part.
        expected = encoders.oracle.draw([headers.index(header) for header in texts[table]]).mean(axis=0)
        assert vector == pytest.approx(expected, abs=2e-3)
