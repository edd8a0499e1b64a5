"""A task: what is measured of one encoder, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi_paper.bench import Bench
from navi_paper.encoder import TableEncoder

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Outcome:
    """What came of a task."""

    measures: dict[str, float]
    """Figures by name; what a deviation belongs to has the same name with `_deviation` behind it."""
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    """What figures and later tasks need, kept beside the results; numbers and plain strings alone."""

    def __post_init__(self) -> None:
        for name, array in self.arrays.items():
            assert array.dtype != np.object_, f"{name} would have to be pickled"


@dataclass(frozen=True, kw_only=True)
class Task:
    """Something measured of each encoder."""

    name: str
    """What it is called in results."""
    run: Callable[[TableEncoder, Bench], Outcome]
    """Measures an encoder."""
    needs: tuple[str, ...] = ()
    """Parts of the gold that it cannot do without."""
    only: tuple[str, ...] | None = None
    """The encoders that it is for; None for all."""
    tokens: bool = False
    """Whether it is only for encoders that predict tokens."""


@dataclass(frozen=True, kw_only=True)
class Sequel:
    """Something measured of what an earlier task kept, without the encoder: classifiers on its row vectors, say."""

    name: str
    """What it is called in results."""
    after: str
    """The task whose arrays it takes."""
    run: Callable[[Arrays, Bench], Outcome]
    """Measures the arrays."""
    needs: tuple[str, ...] = ()
    """Parts of the gold that it cannot do without."""
    module: str | None = None
    """A package that it cannot do without."""
    extra: str = "eval"
    """The extra that brings that package."""
