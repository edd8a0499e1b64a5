"""Figures of a report as plain data; how they are drawn is said in `charts`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from navi.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What all figures have."""

    caption: str
    """What it shows, in one sentence."""
    alt: str = ""
    """What a reader who cannot see it should know; made of the data if empty."""
    note: str = ""
    """What is to be said below it."""
    quiet: tuple[str, ...] = ()
    """Names drawn in grey: those that are there to compare with."""


@dataclass(frozen=True, kw_only=True)
class Map(Figure):
    """Points in a plane that say what they are when pointed at."""

    x: tuple[float, ...]
    """Where each point stands from left to right."""
    y: tuple[float, ...]
    """Where each point stands from bottom to top."""
    labels: Mapping[str, tuple[str, ...]]
    """What is told of each point, by name."""
    colour: str | None = None
    """The label that decides the colour."""
    hulls: str | None = None
    """The label whose equal points are drawn in one hull."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", _floats(self.x, "x"))
        object.__setattr__(self, "y", _floats(self.y, "y"))
        labels = {name: tuple(str(text) for text in texts) for name, texts in self.labels.items()}
        object.__setattr__(self, "labels", labels)
        lengths = {"x": len(self.x), "y": len(self.y)} | {name: len(texts) for name, texts in labels.items()}
        _check(len(set(lengths.values())) == 1, self, f"needs as many of each, got {lengths}.")
        for name in (self.colour, self.hulls):
            _check(name is None or name in labels, self, f"has no label '{name}'. Expected one of {', '.join(labels)}.")


@dataclass(frozen=True, kw_only=True)
class Bars(Figure):
    """Figures of some categories side by side."""

    categories: tuple[str, ...]
    """What is measured, from top to bottom."""
    series: Mapping[str, tuple[float | None, ...]]
    """For each who is compared, a figure for each category; None where there is none."""
    deviations: Mapping[str, tuple[float | None, ...]] | None = None
    """The standard deviations of these figures, by the same names."""
    title: str = ""
    """What the figures mean."""
    percent: bool = False
    """Shows shares in percent."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "categories", tuple(self.categories))
        for field in ("series", "deviations"):
            given = getattr(self, field)
            if given is not None:
                object.__setattr__(self, field, {name: _gapped(values) for name, values in given.items()})
        for name, values in (*self.series.items(), *(self.deviations or {}).items()):
            _check(name in self.series, self, f"has deviations of '{name}', which is not among its series.")
            _check(
                len(values) == len(self.categories),
                self,
                f"needs {len(self.categories)} figures of '{name}', one for each category, got {len(values)}.",
            )


@dataclass(frozen=True, kw_only=True)
class Lines(Figure):
    """How something goes as something else grows."""

    series: Mapping[str, tuple[tuple[float, float], ...]]
    """The points (x, y) of each line, from left to right."""
    x_title: str
    """What grows."""
    y_title: str
    """What is measured."""
    percent: bool = False
    """Shows what is measured in percent."""

    def __post_init__(self) -> None:
        made = {name: tuple((_float(x, "x"), _float(y, "y")) for x, y in line) for name, line in self.series.items()}
        object.__setattr__(self, "series", made)


@dataclass(frozen=True, kw_only=True)
class Distribution(Figure):
    """How often values lie where; usually made by `from_values`."""

    edges: tuple[float, ...]
    """The bounds of the bins, one more than there are bins."""
    shares: Mapping[str, tuple[float, ...]]
    """The share of each bin, for each who is compared."""
    title: str
    """What the values mean."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", _floats(self.edges, "edges"))
        object.__setattr__(self, "shares", {name: _floats(each, name) for name, each in self.shares.items()})
        _check(list(self.edges) == sorted(set(self.edges)), self, "needs edges that grow.")
        for name, shares in self.shares.items():
            _check(
                len(shares) == len(self.edges) - 1,
                self,
                f"needs one edge more than bins, got {len(self.edges)} edges and {len(shares)} bins of '{name}'.",
            )

    @classmethod
    def from_values(cls, values: Mapping[str, Iterable[float]], *, bins: int = 40, **rest: Any) -> Self:
        """Return the distributions of some values over bins that they share.

        >>> Distribution.from_values({"a": [0.0, 0.1, 1.0, 1.0]}, bins=2, caption="", title="").shares
        {'a': (0.5, 0.5)}
        """
        found = {name: [_float(value, name) for value in each] for name, each in values.items()}
        everything = [value for each in found.values() for value in each]
        if not everything or bins < 1:
            raise ConfigError(f"A distribution needs values and bins, got {len(everything)} values and {bins} bins.")
        low, high = min(everything), max(everything)
        # Values nearer to each other than floats can be told apart over so many bins count as equal.
        least = 4 * bins * math.ulp(max(abs(low), abs(high)))
        high = high if high - low > least else low + max(1.0, least)
        edges = tuple(low + (high - low) * step / bins for step in range(bins + 1))
        shares = {name: _count(each, low, high, bins) for name, each in found.items()}
        return cls(edges=edges, shares=shares, **rest)


@dataclass(frozen=True)
class Bin:
    """The answers of about one confidence."""

    confidence: float
    """Their mean confidence."""
    accuracy: float
    """The share of them that is right."""
    count: int
    """How many they are."""


@dataclass(frozen=True, kw_only=True)
class Reliability(Figure):
    """Whether answers are right as often as they are sure; usually made by `from_outcomes`."""

    series: Mapping[str, tuple[Bin, ...]]
    """The bins of each who answered, from the least sure to the surest."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "series", {name: tuple(bins) for name, bins in self.series.items()})
        for bins in self.series.values():
            for each in bins:
                inside = 0 <= each.confidence <= 1 and 0 <= each.accuracy <= 1
                _check(inside, self, f"needs confidences and accuracies from 0 to 1, got {each}.")

    @classmethod
    def from_outcomes(
        cls, outcomes: Mapping[str, tuple[Sequence[float], Sequence[bool]]], *, bins: int = 10, **rest: Any
    ) -> Self:
        """Return the diagram of confidences and whether each answer was right.

        >>> Reliability.from_outcomes({"a": ([0.9, 0.95], [True, False])}, caption="").series["a"][0].accuracy
        0.5
        """
        return cls(series={name: _bin(*each, bins) for name, each in outcomes.items()}, **rest)


def _bin(confidences: Sequence[float], hits: Sequence[bool], bins: int) -> tuple[Bin, ...]:
    members: dict[int, list[tuple[float, bool]]] = {}
    for confidence, hit in zip(confidences, hits, strict=True):
        members.setdefault(min(int(confidence * bins), bins - 1), []).append((float(confidence), bool(hit)))
    return tuple(
        Bin(sum(sure for sure, _ in each) / len(each), sum(hit for _, hit in each) / len(each), len(each))
        for _, each in sorted(members.items())
    )


def _count(values: list[float], low: float, high: float, bins: int) -> tuple[float, ...]:
    counts = [0] * bins
    for value in values:
        counts[min(int((value - low) / (high - low) * bins), bins - 1)] += 1
    return tuple(count / max(len(values), 1) for count in counts)


def _float(value: Any, name: str) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ConfigError(f"A figure cannot draw {number} among the values of '{name}'. Leave such values out.")
    return number


def _floats(values: Iterable[Any], name: str) -> tuple[float, ...]:
    return tuple(_float(value, name) for value in values)


def _gapped(values: Iterable[Any]) -> tuple[float | None, ...]:
    return tuple(None if value is None or not math.isfinite(value) else float(value) for value in values)


def _check(is_right: bool, figure: Figure, complaint: str) -> None:
    if not is_right:
        raise ConfigError(f"{type(figure).__name__} '{figure.caption}' {complaint}")
