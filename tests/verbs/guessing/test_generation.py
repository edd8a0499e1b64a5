from __future__ import annotations

import numpy as np
import pytest
import torch

from navi.backbones import load_tokenizer
from navi.model import load_backbone
from navi.model.runner import Runner
from navi.verbs.guessing.gaps import Gaps, open_gaps
from navi.verbs.guessing.generation import Generator, choose_surest


@pytest.fixture(scope="module")
def arrays(make_arrays):
    return make_arrays(num_rows=12, cells=(2, 6))


@pytest.fixture(scope="module")
def runner(tiny_backbone, special):
    torch.manual_seed(0)
    return Runner(load_backbone(tiny_backbone).eval(), special, device="cpu", workers=0)


@pytest.fixture(scope="module")
def generator(runner, arrays, tiny_backbone):
    return Generator(runner, arrays, load_tokenizer(tiny_backbone))


GAPS = Gaps(row=np.array([0, 3, 7, 11]), column=np.array([0, 2, 7, 11]))
LENGTHS = np.array([1, 4, 2, 3])


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_every_place_is_filled_with_a_word_that_may_stand_there(generator, runner, tiny_backbone, rounds):
    tokenizer = load_tokenizer(tiny_backbone)
    found = generator.generate(GAPS, LENGTHS, rounds)
    assert np.diff(found.offsets).tolist() == LENGTHS.tolist()
    assert np.isin(found.tokens, runner.special.regular).all()
    firsts = [tokenizer.id_to_token(int(token)) for token in found.tokens[found.offsets[:-1]]]
    assert not any(first.startswith("##") for first in firsts)
    assert (found.log_probability < 0).all()


def test_in_one_round_each_token_is_the_likeliest_of_its_place(generator, runner, arrays):
    gap, length = GAPS.take(np.array([3])), 3
    opened = open_gaps(arrays, gap, np.array([0, length]), np.full(length, runner.special.mask))

    def read(output, rows, layout):
        places = torch.from_numpy(np.flatnonzero(layout.token_ids == runner.special.mask))
        return {"logp": torch.log_softmax(runner.model.predict_tokens(output, places), dim=1)}

    [(_, _, found)] = runner.run(opened, np.array([0]), read)
    tokens, logp = generator.generate(gap, np.array([length]), 1).of(0)
    allowed = np.full(found["logp"].shape, -np.inf)
    allowed[:, runner.special.regular] = found["logp"][:, runner.special.regular]
    assert list(tokens[1:]) == allowed.argmax(axis=1)[1:].tolist()
    assert logp[1:] == pytest.approx(allowed.max(axis=1)[1:], abs=1e-4)


def test_the_last_round_sees_all_that_earlier_ones_put_in(generator, runner, arrays):
    gap, length = GAPS.take(np.array([1])), 4
    tokens, logp = generator.generate(gap, np.array([length]), length).of(0)

    def read(output, rows, layout):
        places = torch.from_numpy(np.flatnonzero(layout.token_ids == runner.special.mask))
        return {"logp": torch.log_softmax(runner.model.predict_tokens(output, places), dim=1)}

    agreeing = 0
    for place, token in enumerate(tokens):
        masked = np.array(tokens)
        masked[place] = runner.special.mask
        opened = open_gaps(arrays, gap, np.array([0, length]), masked)
        [(_, _, found)] = runner.run(opened, np.array([0]), read)
        agreeing += abs(found["logp"][0, token] - logp[place]) < 1e-4
    assert agreeing == 1


def test_generating_twice_gives_the_same(generator):
    first, second = (generator.generate(GAPS, LENGTHS, 3) for _ in range(2))
    assert first.tokens.tolist() == second.tokens.tolist()


def test_each_round_fills_an_even_share_of_what_is_left_the_surest_first():
    gap, logp = np.array([0, 0, 0, 0, 2]), np.array([-4.0, -1.0, -3.0, -2.0, -9.0])
    assert choose_surest(gap, logp, 2).tolist() == [1, 3, 4]
    assert choose_surest(gap, logp, 1).tolist() == [0, 1, 2, 3, 4]
    assert choose_surest(gap, logp, 9).tolist() == [1, 4]
