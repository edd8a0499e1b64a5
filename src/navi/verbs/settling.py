"""From guesses of both kinds to one value a gap, with a calibrated probability."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from navi.errors import CorpusError
from navi.model.runner import Runner
from navi.training import Domain
from navi.verbs.calibration import LEAST_ANSWERS, Answers, Calibration, Floats, calibrate
from navi.verbs.guessing.blend import Blend, choose_blend
from navi.verbs.guessing.config import GuessConfig
from navi.verbs.guessing.gaps import Gaps
from navi.verbs.guessing.guesser import Guesser, Guesses
from navi.verbs.heldout import HiddenCells, hide_cells

if TYPE_CHECKING:
    from navi.corpus import Corpus

# Shape suffixes: M gaps.

Roles = NDArray[np.str_]


@dataclass(frozen=True, kw_only=True)
class Settled:
    """One guess a gap, the likelier of two.

    **Shape**: M gaps.
    """

    texts: tuple[str | None, ...]
    """(M,) the value; None where none was found, or none that the column's format allows."""
    tokens: tuple[tuple[int, ...], ...]
    """(M,) its tokens; empty where none was found."""
    probability: Floats
    """(M,) calibrated probability; raw where there is no calibration."""
    kind: Roles
    """(M,) `known` or `generated`."""


def settle(
    guesser: Guesser,
    gaps: Gaps,
    role: Roles,
    calibration: Calibration | None,
    progress: Callable[[int, int], None] | None = None,
) -> Settled:
    """Guess each gap, from the column's values and by generating, and keep the guess with the higher probability."""
    tell = None if progress is None else lambda done: progress(done, len(gaps))
    ranked, generated = guesser.rank(gaps, tell), guesser.generate(gaps)
    first, second = (_calibrate(guesses, role, calibration) for guesses in (ranked, generated))
    take_second = second > first
    pairs = list(zip(take_second.tolist(), range(len(gaps)), strict=True))
    return Settled(
        texts=tuple((generated if second else ranked).texts[gap] for second, gap in pairs),
        tokens=tuple((generated if second else ranked).tokens[gap] for second, gap in pairs),
        probability=np.where(take_second, second, first),
        kind=np.where(take_second, generated.kind, ranked.kind),
    )


def _calibrate(guesses: Guesses, role: Roles, calibration: Calibration | None) -> Floats:
    if calibration is None:
        return guesses.raw
    made = np.array([len(tokens) > 0 for tokens in guesses.tokens], dtype=bool)
    calibrated = calibration.apply(guesses.raw, role, np.full(len(role), guesses.kind))
    return np.where(made, calibrated, 0.0)


def answer(guesser: Guesser, hidden: HiddenCells) -> Answers:
    """Guess hidden cells in both ways, and tell which guesses are right."""
    ranked, generated = (hidden.judge(guess(hidden.gaps)) for guess in (guesser.rank, guesser.generate))
    return Answers(
        raw=np.concatenate([ranked.raw, generated.raw]),
        correct=np.concatenate([ranked.correct, generated.correct]),
        role=np.concatenate([ranked.role, generated.role]),
        kind=np.concatenate([ranked.kind, generated.kind]),
    )


def fit_calibration(guesser: Guesser, hidden: HiddenCells, *, seed: int = 0) -> Calibration:
    """Return the calibration that hidden cells give; the guesser weighs evidence by it from now on.

    One half of the cells decides how evidence is weighed, the other how probabilities are calibrated.
    """
    cells = np.random.default_rng(seed).permutation(len(hidden.gaps))
    first, second = (hidden.take(half) for half in np.array_split(cells, 2))
    choices = guesser.list_choices(first.gaps, first.truth)
    if choices:
        guesser.blend = choose_blend(choices, guesser.blend)
    return replace(calibrate(answer(guesser, second), seed=seed), blend=guesser.blend)


def calibrate_model(
    runner: Runner,
    corpus: Corpus,
    domain: Domain,
    *,
    num_cells: int = 4000,
    start: Blend | None = None,
    config: GuessConfig | None = None,
    seed: int = 0,
) -> Calibration:
    """Return the calibration of a model on its corpus: validation cells hidden, training rows as evidence.

    Weights are fitted from the blend `start` on. One that gives the model no weight leaves it out: what the rows alone
    tell.
    """
    hidden = hide_cells(corpus.arrays, corpus.rows_of("validation"), num_cells, seed=seed)
    if len(hidden.gaps) < LEAST_ANSWERS:
        raise CorpusError(
            f"The corpus has {len(hidden.gaps)} validation cells that can be hidden, too few to calibrate with: "
            f"{LEAST_ANSWERS} are needed. Prepare it with a larger validation_share."
        )
    guesser = Guesser(
        runner,
        corpus,
        corpus.tokenizer,
        rows=corpus.rows_of("train"),
        domain=domain,
        max_tokens=corpus.config.max_value_tokens,
        blend=start,
        config=config,
    )
    return fit_calibration(guesser, hidden, seed=seed)
