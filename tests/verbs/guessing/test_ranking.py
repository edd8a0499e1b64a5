from __future__ import annotations

import numpy as np
import pytest
import torch

from navi.model import load_backbone
from navi.model.runner import Runner
from navi.verbs.guessing.gaps import Gaps, open_gaps
from navi.verbs.guessing.ranking import ValueScorer, sum_tokens
from navi.verbs.guessing.valueset import gather_values

VALUES = gather_values(
    [(0, "a", (50,), 1), (1, "b c", (60, 61), 1), (2, "d e", (61, 60), 1), (3, "f g h", (70, 71, 72), 1)], [], 10
)
OTHERS = gather_values([(0, "a", (80,), 1), (1, "b c", (81, 82), 1)], [], 10)


@pytest.fixture(scope="module")
def arrays(make_arrays):
    return make_arrays(num_rows=12, cells=(2, 6))


@pytest.fixture(scope="module")
def runner(tiny_backbone, special):
    return Runner(load_backbone(tiny_backbone).eval(), special, device="cpu", workers=0, tokens_per_batch=120)


def score_one_by_one(runner, arrays, gaps, gap, tokens):
    """Mask exactly this value's tokens in a row of its own, and add up the log-probabilities."""
    mask = np.full(len(tokens), runner.special.mask)
    opened = open_gaps(arrays, gaps.take(np.array([gap])), np.array([0, len(tokens)]), mask)

    def read(output, rows, layout):
        places = torch.from_numpy(np.flatnonzero(layout.token_ids == runner.special.mask))
        logp = torch.log_softmax(runner.model.predict_tokens(output, places), dim=1)
        return {"sum": logp[torch.arange(len(tokens)), torch.tensor(tokens)].sum()[None]}

    [(_, _, found)] = runner.run(opened, np.array([0]), read)
    return float(found["sum"][0])


def test_scores_are_those_of_each_value_masked_by_itself(runner, arrays):
    columns = np.array([0, 3, 0, 5, 9])
    gaps = Gaps(row=np.array([0, 1, 5, 7, 11]), column=columns)
    sets, set_M = [VALUES, OTHERS], np.array([0, 1, 0, 1, 0])
    lengths = [np.array([1, 2, 3]), np.array([1, 2]), np.array([2]), np.array([1]), np.array([], np.int64)]
    scores = ValueScorer(runner, arrays).score(gaps, sets, set_M, lengths)
    for gap, number in enumerate(set_M.tolist()):
        for value, tokens in enumerate(sets[number].tokens):
            if len(tokens) in lengths[gap]:
                expected = score_one_by_one(runner, arrays, gaps, gap, tokens)
                assert scores[gap][value] == pytest.approx(expected, abs=1e-3)
            else:
                assert scores[gap][value] == -np.inf


def test_nothing_asked_gives_no_scores(runner, arrays):
    gaps = Gaps(row=np.array([0]), column=np.array([0]))
    [scores] = ValueScorer(runner, arrays).score(gaps, [VALUES], np.array([0]), [np.array([], np.int64)])
    assert np.isneginf(scores).all()


def test_token_sums_are_taken_from_each_first_place_on():
    logp = torch.arange(12.0).reshape(4, 3)
    found = sum_tokens(logp, torch.tensor([0, 2]), torch.tensor([[0, 2], [1, 1]]))
    assert found.tolist() == [[0 + 5, 1 + 4], [6 + 11, 7 + 10]]
