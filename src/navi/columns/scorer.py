"""The pair scorer: how much the headers of two columns, and how much their values, speak for the same meaning."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from navi.columns.columns import ColumnProfiles
from navi.columns.evidence import EVIDENCE, HEADER_EVIDENCE, RIVAL_LIMIT, VALUE_EVIDENCE, Background, measure_evidence
from navi.columns.useless import is_useless
from navi.errors import ModelError

# Shape suffixes: K columns, L other columns, E kinds of evidence.

SCORER_FILE = "scorer.json"
SPELLING_WEIGHTS = MappingProxyType({"header_words": 1.0, "header_grams": 1.0})
"""Weights of the words and trigrams that headers share. They are set: a model knows the headers that it was trained on
by heart, so beside its view of them their spelling would come out as worth nothing, which it is not on new tables."""
SET_WEIGHTS = MappingProxyType(
    {**SPELLING_WEIGHTS, "together": RIVAL_LIMIT, "blind_header": 1.0, "blind_value": 1.0},
)
"""Weights that are set, not fitted. Sharing a table is a logarithm of odds already. And blind states would teach a
scorer to trust the model more than new tables bear out, for the same reason as above."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class PairScores:
    """Scores of every pair of columns, as logarithms of odds: above 0 is for the same meaning."""

    headers: Floats
    """(K, L) what the headers say; 0 where one is missing or says nothing."""
    values: Floats
    """(K, L) what the values say; 0 where one column has none."""

    @property
    def total(self) -> Floats:
        """(K, L) both together."""
        return self.headers + self.values


@dataclass(frozen=True, kw_only=True)
class PairScorer:
    """Weights of all evidence; header and value evidence each add up to the logarithm of a likelihood ratio."""

    weights: Mapping[str, float]
    """Weight of each kind of evidence, none negative."""
    header_bias: float
    """What headers without any likeness say, as a logarithm of odds."""
    value_bias: float
    """What values without any likeness say."""
    temperature: float = 1.0
    """What scores of candidate names are divided by to become probabilities."""

    def score(self, first: ColumnProfiles, second: ColumnProfiles, background: Background) -> PairScores:
        """Return the scores of every pair of columns of two lots."""
        evidence = measure_evidence(first, second, background)
        headers, values = self.weigh(evidence)
        headers *= np.outer(have_headers(first), have_headers(second))
        values *= np.outer(have_values(first), have_values(second))
        return PairScores(headers=headers, values=values)

    def weigh(self, evidence: Floats) -> tuple[Floats, Floats]:
        """Return what header and what value evidence (E, …) adds up to, as if neither were missing."""
        weights = np.array([self.weights.get(name, 0.0) for name in EVIDENCE], np.float32)
        split = len(HEADER_EVIDENCE)
        headers = np.tensordot(weights[:split], evidence[:split], 1) + np.float32(self.header_bias)
        values = np.tensordot(weights[split:], evidence[split:], 1) + np.float32(self.value_bias)
        return headers, values

    def save(self, folder: str | Path) -> None:
        """Write the weights into a model directory."""
        content = {**vars(self), "weights": dict(self.weights)}
        (Path(folder) / SCORER_FILE).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return the scorer of a model directory."""
        file = Path(folder) / SCORER_FILE
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            return cls(**content)
        except (OSError, ValueError, TypeError) as error:
            raise ModelError(f"Cannot read {file}: {error}. Expected a model directory made by pretraining.") from error


def have_headers(profiles: ColumnProfiles) -> NDArray[np.bool_]:
    """Tell which columns have a header that says something: (K,)."""
    return np.array([not is_useless(header) for header in profiles.headers], np.bool_)


def have_values(profiles: ColumnProfiles) -> NDArray[np.bool_]:
    """Tell which columns have values: (K,)."""
    return profiles.sketches.cells > 0


DEFAULT_SCORER = PairScorer(
    weights=MappingProxyType(
        {
            "attribute": 5.6,
            "header_state": 1.3,
            "contained": 2.8,
            "shared": 1.1,
            "frequent": 0.5,
            "words": 6.9,
            "grams": 0.2,
            "numbers": 1.0,
            "scale": 3.3,
            "kind": 1.1,
            "shape": 0.5,
            "length": 2.6,
            "lists": 0.5,
            "diversity": 2.8,
            **SET_WEIGHTS,
        }
    ),
    header_bias=-2.2,
    value_bias=-5.3,
)
"""The scorer where no other was fitted: what fitting gives on a few dozen tables about films, headers as labels."""
assert set(DEFAULT_SCORER.weights) <= {*HEADER_EVIDENCE, *VALUE_EVIDENCE}
