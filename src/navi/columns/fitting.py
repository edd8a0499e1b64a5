"""A scorer learned from tables alone: equal headers teach what values say, and values teach what headers say."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from navi.columns.columns import ColumnProfiles
from navi.columns.evidence import EVIDENCE, HEADER_EVIDENCE, VALUE_EVIDENCE, Background, measure_evidence
from navi.columns.scorer import DEFAULT_SCORER, SET_WEIGHTS, SPELLING_WEIGHTS, PairScorer, have_headers, have_values
from navi.randomness import fold, make_key, order_keys

# Shape suffixes: K columns, N pairs, E kinds of evidence.

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
TEMPERATURES = (0.3, 5.0)
"""Bounds of the temperature."""
_PULL = 1e-4

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class _Pairs:
    """Pairs of columns of different tables."""

    evidence: NDArray[np.float32]
    """(N, E) all evidence."""
    same: NDArray[np.bool_]
    """(N,) whether the attributes are equal."""
    weight: Floats
    """(N,) weight of each pair: all attributes count alike, however many columns have them."""


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
    evidence = measure_evidence(chosen, chosen, Background([chosen]))
    pairs = _list_pairs(chosen, evidence)
    if pairs.same.sum() < MIN_PAIRS:
        return DEFAULT_SCORER
    scorer = _fit_weights(pairs)
    plain = replace(scorer, weights={**scorer.weights, "blind_header": 0.0, "blind_value": 0.0})
    return replace(scorer, temperature=_fit_temperature(chosen, plain.weigh(evidence)[1].astype(np.float64)))


def _fit_weights(pairs: _Pairs) -> PairScorer:
    values = [EVIDENCE.index(name) for name in VALUE_EVIDENCE if name not in SET_WEIGHTS]
    headers = [EVIDENCE.index(name) for name in HEADER_EVIDENCE if name not in SET_WEIGHTS]
    probability = _fit_values(pairs, values)[1]
    doubtful = ~pairs.same & (probability >= np.median(probability[pairs.same]))
    value_fit, probability = _fit_values(pairs, values, ~doubtful)
    sure = (probability >= SURE) | (probability <= SURELY_NOT)
    label = (probability[sure] >= SURE).astype(np.float64)
    header_fit, share = _default(headers, DEFAULT_SCORER.header_bias), 0.5
    if label.mean() < 1 and pairs.same[sure][label > 0].sum() >= LEAST_AGREEMENT * max(label.sum(), 1):
        evidence = pairs.evidence[sure]
        header_fit = _fit_logistic(
            evidence[:, headers],
            label,
            np.ones(len(label)),
            _default(headers)[:-1],
            given=sum(weight * evidence[:, EVIDENCE.index(name)] for name, weight in SPELLING_WEIGHTS.items()),
        )
        share = float(label.mean())
    fitted = [*header_fit[:-1].tolist(), *value_fit[:-1].tolist()]
    weights = dict(zip((EVIDENCE[place] for place in [*headers, *values]), fitted, strict=True))
    return PairScorer(
        weights=weights | dict(SET_WEIGHTS),
        header_bias=float(header_fit[-1] - np.log(share / (1 - share))),
        value_bias=float(value_fit[-1] - np.log(POSITIVE_SHARE)),
    )


def _fit_temperature(profiles: ColumnProfiles, values: Floats) -> float:
    """Return what scores must be divided by for the names of columns to get honest probabilities.

    Each column is named from all tables but its own, as if it were new; its own attribute is right.
    """
    from scipy.optimize import minimize_scalar

    _, table = np.unique(profiles.tables, return_inverse=True)
    _, attribute = np.unique(profiles.attributes, return_inverse=True)
    order = np.argsort(attribute, kind="stable")
    others = np.where(table[:, None] == table[None, :], -np.inf, values)[:, order]
    best = np.maximum.reduceat(others, np.searchsorted(attribute[order], np.arange(attribute.max() + 1)), axis=1)
    own = best[np.arange(len(best)), attribute]
    best, own = best[np.isfinite(own)], own[np.isfinite(own)]

    def measure(temperature: float) -> float:
        scaled = best / temperature
        highest = scaled.max(axis=1, keepdims=True)
        total = np.log(np.exp(scaled - highest).sum(axis=1)) + highest[:, 0]
        return float((total - own / temperature).mean())

    return float(minimize_scalar(measure, bounds=TEMPERATURES, method="bounded").x)


def _choose_columns(profiles: ColumnProfiles, seed: int) -> NDArray[np.int64]:
    """Return columns with header and values, those first whose attribute other tables have too, ascending."""
    usable = np.flatnonzero(have_headers(profiles) & have_values(profiles))
    attributes = np.array(profiles.attributes, dtype=object)[usable]
    _, attribute, counts = np.unique(attributes, return_inverse=True, return_counts=True)
    drawn = order_keys(fold(make_key(seed), usable))
    order = np.lexsort((drawn, counts[attribute] < 2))
    return np.sort(usable[order[:MAX_COLUMNS]])


def _list_pairs(profiles: ColumnProfiles, evidence: NDArray[np.float32]) -> _Pairs:
    _, table = np.unique(profiles.tables, return_inverse=True)
    _, attribute, counts = np.unique(profiles.attributes, return_inverse=True, return_counts=True)
    first, second = np.triu_indices(len(profiles), 1)
    across = table[first] != table[second]
    first, second = first[across], second[across]
    same = attribute[first] == attribute[second]
    weight = np.where(same, 1.0 / counts[attribute[first]], 1.0)
    weight[same] *= POSITIVE_SHARE * (~same).sum() / max(weight[same].sum(), 1e-9)
    return _Pairs(evidence=np.ascontiguousarray(evidence[:, first, second].T), same=same, weight=weight)


def _fit_values(pairs: _Pairs, places: list[int], kept: NDArray[np.bool_] | None = None) -> tuple[Floats, Floats]:
    """Return the weights of the value evidence, bias last, and the probability that they give each pair."""
    weight = pairs.weight if kept is None else pairs.weight * kept
    evidence = pairs.evidence[:, places].astype(np.float64)
    fitted = _fit_logistic(evidence, pairs.same.astype(np.float64), weight, _default(places)[:-1])
    return fitted, 1 / (1 + np.exp(-(evidence @ fitted[:-1] + fitted[-1])))


def _default(places: list[int], bias: float = 0.0) -> Floats:
    """Return the default scorer's weights of some evidence, bias last."""
    return np.array([*(DEFAULT_SCORER.weights.get(EVIDENCE[place], 0.0) for place in places), bias])


def _fit_logistic(
    evidence: NDArray[np.floating],
    label: Floats,
    weight: Floats,
    pull: Floats,
    given: NDArray[np.floating] | float = 0.0,
) -> Floats:
    """Return weights, none negative and drawn a little towards `pull`, and the bias, of a logistic regression.

    What is `given` of each logit stands beside what is fitted.
    """
    from scipy.optimize import minimize

    design = np.column_stack([evidence, np.ones(len(evidence))]).astype(np.float64)
    share = weight / weight.sum()

    def measure(fitted: Floats) -> tuple[float, Floats]:
        logit = design @ fitted + given
        apart = np.append(fitted[:-1] - pull, 0.0)
        loss = share @ (np.logaddexp(0, logit) - label * logit) + _PULL / 2 * (apart @ apart)
        return float(loss), design.T @ (share * (1 / (1 + np.exp(-logit)) - label)) + _PULL * apart

    bounds = [(0.0, None)] * len(pull) + [(None, None)]
    found: Floats = minimize(measure, np.append(pull, -3.0), jac=True, method="L-BFGS-B", bounds=bounds).x
    return found
