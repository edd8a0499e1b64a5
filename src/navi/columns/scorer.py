"""The pair scorer: from the features of two columns to the odds that both mean the same, and how it is learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from navi.columns.features import FEATURES, HEADER_FEATURES, RIVAL_LIMIT, VALUE_FEATURES, Background, measure_features
from navi.columns.headers import is_useless
from navi.columns.profiles import ColumnProfiles
from navi.errors import ModelError
from navi.files import read_json, write_json
from navi.randomness import fold, make_key, order_keys

# Shape suffixes: K columns, L other columns, E features, N pairs.

SCORER_FILE = "scorer.json"
SPELLING_WEIGHTS = MappingProxyType({"header_words": 1.0, "header_grams": 1.0})
"""Weights of the words and trigrams that headers share. They are set: a model knows the headers that it was trained on
by heart, so beside its view of them their spelling would come out as worth nothing, which it is not on new tables."""
SET_WEIGHTS = MappingProxyType({**SPELLING_WEIGHTS, "together": RIVAL_LIMIT, "blind_header": 1.0, "blind_value": 1.0})
"""Weights that are set, not fitted. Sharing a table is a logarithm of odds already. And blind states would teach a
scorer to trust the model more than new tables bear out, for the same reason as above."""
BLOCK = 256
"""Columns that are compared with all others at once: features take much memory."""
MAX_COLUMNS = 1000
"""Columns that a scorer is fitted on, at most."""
MIN_PAIRS = 50
"""Pairs with equal attributes that fitting takes, at least; with fewer the default scorer serves."""
POSITIVE_SHARE = 0.05
"""Weight of the pairs with equal headers beside all others."""
SURE, SURELY_NOT = 0.7, 0.1
"""Probabilities from which, and up to which, values are sure enough to teach what headers say."""
LEAST_AGREEMENT = 0.2
"""Share of the pairs that values are sure of whose headers are equal, from which values may teach what headers say.
Where it is lower, as among the lengths, weights and counts of products, most of these pairs are none."""
PULL = 1e-4
"""How strongly fitted weights are drawn towards the default ones."""

Floats = NDArray[np.float64]
Scores = NDArray[np.float32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class PairScores:
    """Scores of every pair of columns, as logarithms of odds: above 0 is for the same meaning."""

    headers: Scores
    """(K, L) what the headers say; 0 where one is missing or says nothing."""
    values: Scores
    """(K, L) what the values say; 0 where one column has none."""

    @property
    def total(self) -> Scores:
        """(K, L) both together."""
        return self.headers + self.values


@dataclass(frozen=True, kw_only=True)
class PairScorer:
    """Weights of all features; those of headers and of values each add up to the logarithm of a likelihood ratio."""

    weights: Mapping[str, float]
    """Weight of each feature, none negative."""
    header_bias: float
    """What headers without any likeness say, as a logarithm of odds."""
    value_bias: float
    """What values without any likeness say."""
    temperature: float = 1.0
    """What scores of candidate names are divided by to become probabilities."""

    def score(self, first: ColumnProfiles, second: ColumnProfiles, background: Background) -> PairScores:
        """Return the scores of every pair of columns of two lots."""
        headers, values = np.zeros((2, len(first), len(second)), np.float32)
        for start in range(0, len(first), BLOCK):
            block = slice(start, start + BLOCK)
            part = first.take(np.arange(len(first))[block])
            headers[block], values[block] = self.weigh(measure_features(part, second, background))
        headers *= np.outer(have_headers(first), have_headers(second))
        values *= np.outer(first.cells > 0, second.cells > 0)
        return PairScores(headers=headers, values=values)

    def weigh(self, features: Scores) -> tuple[Scores, Scores]:
        """Return what the features (E, …) of headers and those of values add up to, as if neither were missing."""
        weights = np.array([self.weights.get(name, 0.0) for name in FEATURES], np.float32)
        split = len(HEADER_FEATURES)
        headers = np.tensordot(weights[:split], features[:split], 1) + np.float32(self.header_bias)
        values = np.tensordot(weights[split:], features[split:], 1) + np.float32(self.value_bias)
        return headers, values

    def save(self, folder: str | Path) -> None:
        """Write the weights into a model directory."""
        write_json(Path(folder) / SCORER_FILE, {**vars(self), "weights": dict(self.weights)})

    @staticmethod
    def load(folder: str | Path) -> PairScorer:
        """Return the scorer of a model directory, or the default one where it has none."""
        file, remedy = Path(folder) / SCORER_FILE, "Expected a model directory made by pretraining."
        if not file.exists():
            return DEFAULT_SCORER
        try:
            return PairScorer(**read_json(file, ModelError, remedy))
        except TypeError as error:
            raise ModelError(f"Cannot read {file}: {error}. {remedy}") from error


def have_headers(profiles: ColumnProfiles) -> Flags:
    """Return which columns have a header that says something: (K,)."""
    return np.array([not is_useless(header) for header in profiles.headers], np.bool_)


DEFAULT_SCORER = PairScorer(
    weights=MappingProxyType(
        {
            "attribute": 5.6, "header_state": 1.3, "contained": 2.8, "shared": 1.1, "frequent": 0.5, "words": 6.9,
            "grams": 0.2, "numbers": 1.0, "scale": 3.3, "kind": 1.1, "shape": 0.5, "length": 2.6, "lists": 0.5,
            "diversity": 2.8, **SET_WEIGHTS,
        }
    ),
    header_bias=-2.2,
    value_bias=-5.3,
)  # fmt: skip
"""The scorer where no other was fitted: what fitting gives on a few dozen tables about films, headers as labels."""


def fit_scorer(profiles: ColumnProfiles, *, seed: int = 0) -> PairScorer:
    """Return a scorer fitted on the columns of some tables, nothing but their own headers and values as labels.

    What values say is learned from which columns of different tables have the same header. The pairs that the first
    fit takes for the same though their headers differ are mostly that indeed (`genres`, `listed_in`), so they are left
    out of the second. What headers say is then learned from the pairs that the values are sure of, unless these are so
    seldom right that the default weights serve better.
    """
    chosen = profiles.take(_choose_columns(profiles, seed))
    if len(chosen) < 2:
        return DEFAULT_SCORER
    _, table = np.unique(chosen.tables, return_inverse=True)
    _, attribute, counts = np.unique(chosen.attributes, return_inverse=True, return_counts=True)
    first, second = np.nonzero(np.triu(table[:, None] != table[None, :], 1))
    same = attribute[first] == attribute[second]
    if same.sum() < MIN_PAIRS:
        return DEFAULT_SCORER
    # All attributes count alike, however many columns have them.
    weight = np.where(same, 1.0 / counts[attribute[first]], 1.0)
    weight[same] *= POSITIVE_SHARE * (~same).sum() / max(weight[same].sum(), 1e-9)
    features = measure_features(chosen, chosen, Background([chosen]))
    scorer = _fit_weights(dict(zip(FEATURES, features[:, first, second].astype(np.float64), strict=True)), same, weight)
    plain = replace(scorer, weights={**scorer.weights, "blind_header": 0.0, "blind_value": 0.0})
    return replace(scorer, temperature=_fit_temperature(plain.weigh(features)[1].astype(np.float64), table, attribute))


def _choose_columns(profiles: ColumnProfiles, seed: int) -> NDArray[np.int64]:
    """Return columns with header and values, those first whose attribute other tables have too, ascending."""
    usable = np.flatnonzero(have_headers(profiles) & (profiles.cells > 0))
    attributes = np.array(profiles.attributes, dtype=object)[usable]
    _, attribute, counts = np.unique(attributes, return_inverse=True, return_counts=True)
    drawn = order_keys(fold(make_key(seed), usable))
    order = np.lexsort((drawn, counts[attribute] < 2))
    return np.sort(usable[order[:MAX_COLUMNS]])


def _fit_weights(features: Mapping[str, Floats], same: Flags, weight: Floats) -> PairScorer:
    """Return a scorer without a temperature from the features, (N,) each, and the labels and weights of pairs."""
    values = {name: DEFAULT_SCORER.weights[name] for name in VALUE_FEATURES if name not in SET_WEIGHTS}
    headers = {name: DEFAULT_SCORER.weights[name] for name in HEADER_FEATURES if name not in SET_WEIGHTS}
    by_value = {name: features[name] for name in values}
    _, _, probability = _fit_logistic(by_value, same, weight, values)
    doubtful = ~same & (probability >= np.median(probability[same]))
    values, value_bias, probability = _fit_logistic(by_value, same, weight * ~doubtful, values)
    header_bias = DEFAULT_SCORER.header_bias
    sure = (probability >= SURE) | (probability <= SURELY_NOT)
    label = probability[sure] >= SURE
    if label.mean() < 1 and same[sure][label].sum() >= LEAST_AGREEMENT * max(label.sum(), 1):
        by_header = {name: features[name][sure] for name in headers}
        spelling = np.sum([each * features[name][sure] for name, each in SPELLING_WEIGHTS.items()], axis=0)
        headers, header_bias, _ = _fit_logistic(by_header, label, np.ones(len(label)), headers, spelling)
        header_bias -= float(np.log(label.mean() / (1 - label.mean())))
    return PairScorer(
        weights=headers | values | dict(SET_WEIGHTS),
        header_bias=header_bias,
        value_bias=value_bias - float(np.log(POSITIVE_SHARE)),
    )


def _fit_logistic(
    features: Mapping[str, Floats],
    label: Flags,
    weight: Floats,
    pull: Mapping[str, float],
    offset: Floats | float = 0.0,
) -> tuple[dict[str, float], float, Floats]:
    """Return the weights, the bias and each pair's probability (N,) of a logistic regression.

    Unlike scikit-learn's, no weight is negative, all are drawn a little towards `pull`, and an `offset` of the logits
    may be given.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    design = np.column_stack([*features.values(), np.ones(len(label))])
    goal = np.array(list(pull.values()))
    share = weight / weight.sum()

    def measure(fitted: Floats) -> tuple[float, Floats]:
        logit = design @ fitted + offset
        apart = np.append(fitted[:-1] - goal, 0.0)
        loss = share @ (np.logaddexp(0, logit) - label * logit) + PULL / 2 * (apart @ apart)
        return float(loss), design.T @ (share * (expit(logit) - label)) + PULL * apart

    bounds = [(0.0, None)] * len(goal) + [(None, None)]
    fitted = minimize(measure, np.append(goal, -3.0), jac=True, method="L-BFGS-B", bounds=bounds).x
    return dict(zip(features, fitted[:-1].tolist(), strict=True)), float(fitted[-1]), expit(design @ fitted + offset)


def _fit_temperature(values: Floats, table: NDArray[np.int64], attribute: NDArray[np.int64]) -> float:
    """Return what scores (K, K) must be divided by for the names of columns to get honest probabilities.

    Each column is named from all tables but its own, as if it were new; its own attribute is right.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import logsumexp

    order = np.argsort(attribute, kind="stable")
    others = np.where(table[:, None] == table[None, :], -np.inf, values)[:, order]
    best = np.maximum.reduceat(others, np.searchsorted(attribute[order], np.arange(attribute.max() + 1)), axis=1)
    own = best[np.arange(len(best)), attribute]
    best, own = best[np.isfinite(own)], own[np.isfinite(own)]

    def measure(temperature: float) -> float:
        return float((logsumexp(best / temperature, axis=1) - own / temperature).mean())

    return float(minimize_scalar(measure, bounds=(0.3, 5.0), method="bounded").x)
