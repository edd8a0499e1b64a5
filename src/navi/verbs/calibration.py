"""Calibrated confidence: from raw scores to the share of answers that are right, and how far off that is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from navi.errors import ModelError
from navi.verbs.guessing.blend import Blend

# Shape suffixes: N answers, B bins.

CALIBRATION_FILE = "calibration.json"
FORMAT_VERSION = 1
NUM_BINS = 10
LEAST_ANSWERS = 200
"""Answers from which a calibration is fitted; fewer say too little."""
LEAST_GROUP = 50
"""Answers from which a group may have a curve of its own; smaller groups share one."""
LEAST_ISOTONIC = 200
"""Answers from which a curve may be a free monotone one; fewer allow one of two parameters at most."""
NUM_FOLDS = 5
"""Folds in which reliability after calibration is measured."""
TRIAL_FOLDS = 3
"""Folds in which one curve is tried against another."""
NUM_KNOTS = 41
LARGEST_LOGIT = 9.0
"""Log-odds beyond which raw probabilities are not told apart."""
ALL = "all"
"""Role or kind of a curve that serves every one."""

Floats = NDArray[np.float64]
Fit = Callable[[Floats, NDArray[np.bool_]], "Curve"]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """How well confidence agrees with accuracy, in bins of equal width.

    **Shape**: B bins.
    """

    confidence: tuple[float, ...]
    """(B,) mean confidence of the answers of each bin; 0 for an empty one."""
    accuracy: tuple[float, ...]
    """(B,) share of right answers."""
    count: tuple[int, ...]
    """(B,) number of answers."""
    ece: float
    """Expected calibration error: the mean distance of confidence and accuracy over all answers."""


def measure_reliability(probability: Floats, correct: NDArray[np.bool_], num_bins: int = NUM_BINS) -> Reliability:
    """Return the reliability of N answers; no answers have no error.

    >>> measure_reliability(np.array([0.9, 0.9, 0.9, 0.9]), np.array([True, True, True, False])).ece
    0.15
    """
    bin_N = np.minimum((probability * num_bins).astype(np.int64), num_bins - 1)
    count = np.bincount(bin_N, minlength=num_bins)
    filled = np.maximum(count, 1)
    confidence = np.bincount(bin_N, probability, num_bins) / filled
    accuracy = np.bincount(bin_N, correct.astype(np.float64), num_bins) / filled
    ece = float((np.abs(confidence - accuracy) * count).sum() / max(1, count.sum()))
    return Reliability(
        confidence=tuple(confidence.tolist()),
        accuracy=tuple(accuracy.tolist()),
        count=tuple(count.tolist()),
        ece=round(ece, 12),
    )


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A monotone map from raw to calibrated probability: straight lines between knots."""

    score: tuple[float, ...]
    """Raw probabilities of the knots, ascending."""
    probability: tuple[float, ...]
    """Calibrated probabilities of the knots, never descending."""
    count: int
    """Answers that the curve was fitted to."""

    def __call__(self, raw: Floats) -> Floats:
        """Return calibrated probabilities."""
        return np.interp(raw, self.score, self.probability)


IDENTITY = Curve(score=(0.0, 1.0), probability=(0.0, 1.0), count=0)
"""The curve that leaves probabilities as they are."""


def fit_curve(raw: Floats, correct: NDArray[np.bool_], usual: Curve = IDENTITY) -> Curve:
    """Return the monotone curve that serves new answers best: the usual one, a logistic (Platt's) or an isotonic one.

    Which does is tried in folds, by the squared error of probabilities. No answer becomes certain: probabilities keep
    the distance of one answer in N + 2 from 0 and 1.
    """
    fits: list[Fit] = [lambda *_: usual, _fit_logistic, *([_fit_isotonic] if len(raw) >= LEAST_ISOTONIC else [])]
    best = min(fits, key=lambda fit: _measure_fit(fit, raw, correct))
    found = best(raw, correct)
    margin = 1.0 / (len(raw) + 2)
    return Curve(
        score=found.score,
        probability=tuple(np.clip(found.probability, margin, 1 - margin).tolist()),
        count=len(raw),
    )


def _measure_fit(fit: Fit, raw: Floats, correct: NDArray[np.bool_]) -> float:
    """Return the mean squared error of probabilities, each from a fit to other answers."""
    fold = np.arange(len(raw)) % TRIAL_FOLDS
    errors = np.zeros(len(raw))
    for number in range(TRIAL_FOLDS):
        inside, outside = fold == number, fold != number
        errors[inside] = fit(raw[outside], correct[outside])(raw[inside]) - correct[inside]
    return round(float(np.square(errors).mean()), 9)


def _fit_isotonic(raw: Floats, correct: NDArray[np.bool_]) -> Curve:
    from sklearn.isotonic import IsotonicRegression

    fitted = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(raw, correct.astype(np.float64))
    return _make_curve(fitted.X_thresholds_, fitted.y_thresholds_)


def _fit_logistic(raw: Floats, correct: NDArray[np.bool_]) -> Curve:
    from sklearn.linear_model import LogisticRegression

    odds = np.linspace(-LARGEST_LOGIT, LARGEST_LOGIT, NUM_KNOTS)
    knots = 1 / (1 + np.exp(-odds))
    flat = _make_curve(knots, np.full(NUM_KNOTS, correct.mean() if len(correct) else 0.0))
    if len(np.unique(correct)) < 2:
        return flat
    fitted = LogisticRegression().fit(_logit(raw)[:, None], correct)
    # A score that says the opposite of what it should is no evidence: then every answer has the mean probability.
    return _make_curve(knots, fitted.predict_proba(odds[:, None])[:, 1]) if fitted.coef_[0, 0] > 0 else flat


def _make_curve(score: Floats, probability: Floats) -> Curve:
    return Curve(score=tuple(score.tolist()), probability=tuple(probability.tolist()), count=0)


def _logit(probability: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        odds = np.log(probability) - np.log1p(-probability)
    clipped: Floats = np.clip(odds, -LARGEST_LOGIT, LARGEST_LOGIT)
    return clipped


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Answers to cells whose values are known: what a calibration is fitted to.

    **Shape**: N answers.
    """

    raw: Floats
    """(N,) raw probability of each."""
    correct: NDArray[np.bool_]
    """(N,) whether each is right."""
    role: NDArray[np.str_]
    """(N,) role of each one's column."""
    kind: NDArray[np.str_]
    """(N,) how each was found: `known` or `generated`."""

    def __len__(self) -> int:
        return len(self.raw)

    def take(self, chosen: NDArray[Any]) -> Answers:
        """Return some of the answers."""
        return Answers(
            raw=self.raw[chosen], correct=self.correct[chosen], role=self.role[chosen], kind=self.kind[chosen]
        )


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A curve for each role and kind of answer with enough answers, and one for the rest."""

    curves: Mapping[tuple[str, str], Curve]
    """Curves by role and kind; `all` stands for every one."""
    before: Reliability
    """Reliability of the raw probabilities of the answers that it was fitted to."""
    after: Reliability
    """Reliability after calibration, each answer calibrated by curves that were fitted without it."""
    blend: Blend = field(default_factory=Blend)
    """How the evidence was weighed that gave the raw probabilities."""

    def apply(self, raw: Floats, role: NDArray[np.str_], kind: NDArray[np.str_]) -> Floats:
        """Return calibrated probabilities, each by the narrowest curve there is."""
        return _apply(self.curves, raw, role, kind)

    def save(self, folder: str | Path) -> None:
        """Write the calibration into a model directory."""
        curves = [{"role": role, "kind": kind, **vars(curve)} for (role, kind), curve in self.curves.items()]
        content = {
            "format_version": FORMAT_VERSION,
            "curves": curves,
            "before": vars(self.before),
            "after": vars(self.after),
            "blend": vars(self.blend),
        }
        (Path(folder) / CALIBRATION_FILE).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> Self | None:
        """Return the calibration of a model directory, or None if it has none."""
        file = Path(folder) / CALIBRATION_FILE
        if not file.is_file():
            return None
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            if content["format_version"] > FORMAT_VERSION:
                raise ModelError(
                    f"{file} has format version {content['format_version']}, this version reads up to "
                    f"{FORMAT_VERSION}. Update navi-tables, or delete the file to use raw probabilities."
                )
            return cls(
                curves={(entry.pop("role"), entry.pop("kind")): _read(Curve, entry) for entry in content["curves"]},
                before=_read(Reliability, content["before"]),
                after=_read(Reliability, content["after"]),
                blend=_read(Blend, content["blend"]),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError(f"Cannot read {file}: {error!r}. Delete it to use raw probabilities.") from error


def _read(kind: type[T], entry: dict[str, Any]) -> T:
    return kind(**{name: tuple(member) if isinstance(member, list) else member for name, member in entry.items()})


def calibrate(answers: Answers, *, seed: int = 0) -> Calibration:
    """Return the calibration of answers whose truth is known.

    Reliability afterwards is measured in folds, each by curves fitted to the others, so that it holds for new answers.
    """
    if not len(answers):
        raise ValueError("No answers to calibrate with. Give cells whose values are known.")
    fold = np.random.default_rng(seed).permutation(len(answers)) % NUM_FOLDS
    held_out = answers.raw.copy()
    for number in range(NUM_FOLDS):
        inside, outside = fold == number, fold != number
        if inside.any() and outside.any():
            test = answers.take(inside)
            held_out[inside] = _apply(_fit_groups(answers.take(outside)), test.raw, test.role, test.kind)
    return Calibration(
        curves=_fit_groups(answers),
        before=measure_reliability(answers.raw, answers.correct),
        after=measure_reliability(held_out, answers.correct),
    )


def _fit_groups(answers: Answers) -> dict[tuple[str, str], Curve]:
    """Return a curve for all answers, for each kind and for each role of a kind, each tried against the wider one."""
    curves = {(ALL, ALL): fit_curve(answers.raw, answers.correct)}
    for kind in np.unique(answers.kind).tolist():
        of_kind = answers.kind == kind
        groups = {role: of_kind & (answers.role == role) for role in np.unique(answers.role[of_kind]).tolist()}
        for role, chosen in ({ALL: of_kind} | groups).items():
            if chosen.sum() >= LEAST_GROUP:
                wider = curves.get((ALL, kind), curves[ALL, ALL])
                curves[role, kind] = fit_curve(answers.raw[chosen], answers.correct[chosen], wider)
    return curves


def _apply(
    curves: Mapping[tuple[str, str], Curve], raw: Floats, role: NDArray[np.str_], kind: NDArray[np.str_]
) -> Floats:
    calibrated = raw.copy()
    for one_role, one_kind in {*zip(role.tolist(), kind.tolist(), strict=True)}:
        chosen = (role == one_role) & (kind == one_kind)
        keys = ((one_role, one_kind), (ALL, one_kind), (ALL, ALL))
        calibrated[chosen] = curves[next(key for key in keys if key in curves)](raw[chosen])
    return calibrated
