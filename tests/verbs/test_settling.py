from __future__ import annotations

import numpy as np
import pytest

from navi.corpus import PrepareConfig, prepare
from navi.errors import CorpusError
from navi.verbs.calibration import Calibration, Curve, Reliability
from navi.verbs.guessing import GENERATED, KNOWN, Blend, Gaps, GuessConfig, Guesser, Guesses
from navi.verbs.heldout import hide_cells
from navi.verbs.settling import answer, calibrate_model, settle

NOTHING = Reliability(confidence=(), accuracy=(), count=(), ece=0.0)


class TwoGuesses:
    """A guesser with set answers: the second gap has no generated one."""

    def rank(self, gaps, progress=None):
        return Guesses(kind=KNOWN, texts=("a", "b"), tokens=((1,), (2,)), raw=np.array([0.3, 0.3]))

    def generate(self, gaps):
        return Guesses(kind=GENERATED, texts=("c", None), tokens=((3,), ()), raw=np.array([0.6, 0.0]))


def calibrate_kinds(known, generated):
    curves = {
        ("all", kind): Curve(score=(0.0, 1.0), probability=(level, level), count=1)
        for kind, level in ((KNOWN, known), (GENERATED, generated))
    }
    return Calibration(curves=curves, before=NOTHING, after=NOTHING)


GAPS, ROLE = Gaps(row=np.array([0, 1]), column=np.array([0, 0])), np.array(["low", "low"])


def test_the_likelier_guess_is_kept():
    settled = settle(TwoGuesses(), GAPS, ROLE, None)
    assert settled.texts == ("c", "b")
    assert settled.kind.tolist() == [GENERATED, KNOWN]
    assert settled.probability.tolist() == [0.6, 0.3]


def test_calibration_decides_which_guess_is_likelier_and_never_for_one_that_was_not_made():
    assert settle(TwoGuesses(), GAPS, ROLE, calibrate_kinds(0.5, 0.1)).texts == ("a", "b")
    settled = settle(TwoGuesses(), GAPS, ROLE, calibrate_kinds(0.1, 0.5))
    assert settled.texts == ("c", "b")
    assert settled.probability.tolist() == [0.5, 0.1]


@pytest.fixture(scope="module")
def corpus(catalogues, tiny_backbone, tmp_path_factory):
    """A corpus with more validation rows than are usual."""
    folder = tmp_path_factory.mktemp("prepared") / "corpus"
    config = PrepareConfig(
        backbone=str(tiny_backbone), workers=1, max_unknown_share=None, max_value_tokens=8, validation_share=0.3
    )
    return prepare([catalogues], folder, config)


def test_answers_of_both_kinds_are_judged(navi, corpus):
    hidden = hide_cells(corpus.arrays, corpus.rows_of("test"), 30, seed=0)
    guesser = Guesser(navi.runner, corpus, navi.tokenizer, rows=corpus.rows_of("train"), max_tokens=8)
    answers = answer(guesser, hidden)
    assert set(answers.kind) == {KNOWN, GENERATED}
    assert 0 < answers.correct.sum() < len(answers)
    assert set(answers.role) <= {"low", "mid", "high"}


def test_a_model_is_calibrated_on_the_validation_rows_of_its_corpus(navi, corpus):
    config = GuessConfig(generate_above=None)
    calibration = calibrate_model(
        navi.runner, corpus, navi.domain, num_cells=240, start=Blend(model=0.0), config=config, seed=1
    )
    assert calibration.blend != Blend(model=0.0)
    assert calibration.blend.model == 0.0
    assert sum(calibration.after.count) == pytest.approx(120, abs=2)
    assert calibration.after.ece < 0.2
    again = calibrate_model(
        navi.runner, corpus, navi.domain, num_cells=240, start=Blend(model=0.0), config=config, seed=1
    )
    assert again == calibration


def test_a_corpus_with_few_validation_cells_cannot_calibrate(navi, corpus):
    with pytest.raises(CorpusError, match="has 50 validation cells that can be hidden, too few to calibrate with"):
        calibrate_model(navi.runner, corpus, navi.domain, num_cells=50)
