import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi_paper.metrics import (
    measure_b_cubed,
    measure_macro_f1,
    measure_nmi,
    measure_reliability,
    measure_silhouette,
    measure_variants,
)

partitions = st.integers(2, 30).flatmap(
    lambda size: st.tuples(
        st.lists(st.integers(0, 5), min_size=size, max_size=size),
        st.lists(st.integers(0, 5), min_size=size, max_size=size),
    )
)


def b_cubed_by_pairs(gold, clusters):
    precision, recall = [], []
    for item in range(len(gold)):
        cluster = {other for other in range(len(gold)) if clusters[other] == clusters[item]}
        members = {other for other in range(len(gold)) if gold[other] == gold[item]}
        precision.append(len(cluster & members) / len(cluster))
        recall.append(len(cluster & members) / len(members))
    return sum(precision) / len(gold), sum(recall) / len(gold)


def nmi_by_definition(gold, clusters):
    size = len(gold)

    def entropy(labels):
        return -sum(count / size * math.log(count / size) for count in Counter(labels).values())

    both = Counter(zip(gold, clusters, strict=True))
    of_gold, of_cluster = Counter(gold), Counter(clusters)
    mutual = sum(n / size * math.log(n * size / (of_gold[g] * of_cluster[c])) for (g, c), n in both.items())
    total = entropy(gold) + entropy(clusters)
    return 2 * mutual / total if total > 1e-12 else 1.0


@given(partitions)
def test_b_cubed_agrees_with_counting_pairs(pair):
    gold, clusters = pair
    found = measure_b_cubed(np.array(gold), np.array(clusters))
    precision, recall = b_cubed_by_pairs(gold, clusters)
    assert found.precision == pytest.approx(precision)
    assert found.recall == pytest.approx(recall)
    assert found.f1 == pytest.approx(2 * precision * recall / (precision + recall))


@given(partitions)
def test_nmi_agrees_with_its_definition(pair):
    gold, clusters = pair
    assert measure_nmi(np.array(gold), np.array(clusters)) == pytest.approx(nmi_by_definition(gold, clusters), abs=1e-9)


@given(partitions)
def test_a_partition_fits_itself_under_any_names(pair):
    gold = np.array(pair[0])
    renamed = np.array([f"cluster {7 - label}" for label in gold])
    assert measure_b_cubed(gold, renamed).f1 == 1.0
    assert measure_nmi(gold, renamed) == pytest.approx(1.0)


def test_the_silhouette_leaves_out_classes_of_one_item():
    embeddings = np.array([[1, 0], [1, 0.01], [0, 1], [0.01, 1], [1, 1]], dtype=np.float32)
    gold = np.array(["a", "a", "b", "b", "alone"])
    assert measure_silhouette(embeddings, gold) == pytest.approx(measure_silhouette(embeddings[:4], gold[:4]))
    assert measure_silhouette(embeddings, gold) > 0.98


def test_there_is_no_silhouette_of_one_class():
    assert measure_silhouette(np.eye(3), np.array(["a", "a", "b"])) is None


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=50))
def test_the_calibration_error_agrees_with_a_loop_over_bins(answers):
    confidence, right = np.array([each[0] for each in answers]), np.array([each[1] for each in answers])
    expected = 0.0
    for place in range(10):
        inside = (confidence * 10 >= place) & ((confidence * 10 < place + 1) | (place == 9))
        if inside.any():
            expected += abs(confidence[inside].mean() - right[inside].mean()) * inside.mean()
    assert measure_reliability(confidence, right).ece == pytest.approx(expected, abs=1e-9)


def test_who_is_as_often_right_as_he_says_is_calibrated():
    confidence = np.array([0.75] * 4 + [0.25] * 4)
    right = np.array([True, True, True, False, True, False, False, False])
    found = measure_reliability(confidence, right)
    assert found.ece == 0.0
    assert sum(found.count) == 8


def test_macro_f1_counts_every_class_alike():
    labels = np.array(["a"] * 9 + ["b"])
    assert measure_macro_f1(labels, np.array(["a"] * 10)) == pytest.approx((18 / 19 + 0) / 2)


def test_distances_of_variants_leave_out_equal_texts_and_other_concepts():
    embeddings = np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 5.0], [3.0, 3.0]])
    concepts = np.array(["actor", "actor", "actor", "title"])
    headers = np.array(["cast", "actors", "actors", "name"])
    found = measure_variants(embeddings, concepts, headers)
    assert found["cosine"] == pytest.approx(1.0)
    assert found["l2"] == pytest.approx(math.sqrt(2))


def test_without_variants_there_is_no_distance():
    assert measure_variants(np.eye(2), np.array(["a", "b"]), np.array(["x", "y"])) == {}
