import numpy as np
import pytest

from navi_paper.columns import list_gold_columns
from navi_paper.tasks.clustering import cluster_columns, measure_columns, run


@pytest.fixture
def knower(bench, encoders):
    """An encoder that embeds a cell as its concept."""
    names = sorted(set(bench.gold.concepts.values()))

    class Knower(encoders.Oracle):
        def embed(self, arrays, rows, *, parts=("rows",), hidden=None):
            from navi_paper.encoder import list_cells

            row_C, segments = list_cells(arrays, rows)
            headers = bench.corpus.headers.to_pylist()
            tables = arrays.row_table[rows][row_C]
            pairs = zip(tables, arrays.segment_header[segments], strict=True)
            concepts = [bench.gold.concepts.get((bench.corpus.tables[t], headers[h]), "none") for t, h in pairs]
            numbers = [names.index(concept) if concept in names else len(names) for concept in concepts]
            return dict.fromkeys(parts, self.draw(numbers))

    return Knower()


def test_who_knows_what_columns_mean_clusters_them_exactly(bench, knower):
    measures = run(knower, bench).measures
    for name in ("test_headers", "test_segments", "test_headers_permuted"):
        assert measures[f"{name}_nmi"] == pytest.approx(1.0)
        assert measures[f"{name}_b3_f1"] == 1.0
        assert measures[f"{name}_cosine"] == pytest.approx(0.0, abs=1e-6)
        assert measures[f"{name}_l2"] == pytest.approx(0.0, abs=1e-3)
        assert measures[f"{name}_silhouette"] == pytest.approx(1.0)


def test_who_knows_headers_alone_is_wrong_where_they_differ(bench, encoders):
    measures = run(encoders.oracle, bench).measures
    assert measures["test_headers_b3_f1"] < 1.0
    assert measures["test_headers_cosine"] > 0.5


def test_known_and_unseen_tables_are_measured_apart(bench, encoders):
    outcome = run(encoders.oracle, bench)
    assert outcome.measures["test_columns"] == 8
    assert outcome.measures["unseen_columns"] == 3
    assert set(outcome.arrays["test_table"]) == {"alpha", "beta"}
    assert set(outcome.arrays["unseen_table"]) == {"gamma"}


def test_the_embeddings_are_kept_with_what_they_stand_for(bench, encoders):
    arrays = run(encoders.oracle, bench).arrays
    assert arrays["test_headers"].shape == arrays["test_segments"].shape == (8, encoders.Oracle.WIDTH)
    assert arrays["test_headers"].dtype == np.float16
    triples = zip(arrays["test_table"], arrays["test_header"], arrays["test_concept"], strict=True)
    assert {(table, header): concept for table, header, concept in triples}.items() <= bench.gold.concepts.items()


def test_columns_are_clustered_by_direction_not_by_length():
    embedded = np.array([[1, 0], [9, 0.1], [0, 1], [0.1, 9]], np.float32)
    clusters = cluster_columns(embedded, 2)
    assert clusters[0] == clusters[1] != clusters[2] == clusters[3]


def test_no_more_rows_than_asked_for_are_looked_at(bench, encoders):
    asked = []

    class Recorder(encoders.Oracle):
        def embed(self, arrays, rows, *, parts=("rows",), hidden=None):
            asked.append(len(rows))
            return super().embed(arrays, rows, parts=parts, hidden=hidden)

    run(Recorder(), bench)
    assert asked == [16, 16, 8, 8]


def test_without_two_concepts_of_two_columns_there_is_no_silhouette(bench):
    columns = list_gold_columns(bench)
    few = columns.keep(np.isin(columns.number, columns.number[:2]))
    assert "silhouette" not in measure_columns(np.eye(2, dtype=np.float32), few)


def test_headers_and_segments_are_kept_apart(bench, encoders):
    class Parted(encoders.Oracle):
        def embed(self, arrays, rows, *, parts=("rows",), hidden=None):
            found = super().embed(arrays, rows, parts=parts, hidden=hidden)
            return {part: -vectors if part == "segments" else vectors for part, vectors in found.items()}

    arrays = run(Parted(), bench).arrays
    assert np.array_equal(arrays["test_segments"], -arrays["test_headers"])


def test_who_reads_the_order_loses_when_columns_are_permuted(bench, encoders):
    class Placer(encoders.Oracle):
        """Embeds a cell as its place in the row."""

        def embed(self, arrays, rows, *, parts=("rows",), hidden=None):
            places = np.concatenate([np.arange(count) for count in np.diff(arrays.row_offsets)[rows]])
            return dict.fromkeys(parts, self.draw(places))

    measures = run(Placer(), bench).measures
    # Columns that mean the same stand at the same place in both known tables.
    assert measures["test_headers_b3_f1"] == 1.0
    assert measures["test_headers_permuted_b3_f1"] < 1.0
