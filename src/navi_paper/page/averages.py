"""Figures of finished cells as tables show them: averaged over seeds, with their deviation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from navi.report import Number
from navi_paper.results import Record, Results

DEVIATION = "_deviation"
"""Stands behind the name of the measure that a deviation belongs to."""
CORPORA = ("product", "movie")
"""Corpora that come first, as in the paper."""


class Averages:
    """Every figure of some results by corpus, task, model and measure; cells that failed have none."""

    def __init__(self, results: Results) -> None:
        self.folder = results.folder
        self.results = results
        self.records = tuple(results)
        self._done: dict[tuple[str, str, str], list[Record]] = {}
        for record in self.records:
            if record.error is None:
                self._done.setdefault((record.corpus, record.task, record.model), []).append(record)

    @property
    def corpora(self) -> tuple[str, ...]:
        """The corpora of the results, the paper's first."""
        found = dict.fromkeys(record.corpus for record in self.records)
        return tuple(sorted(found, key=lambda name: (CORPORA.index(name) if name in CORPORA else len(CORPORA), name)))

    @property
    def models(self) -> tuple[str, ...]:
        """The models of the results."""
        return tuple(dict.fromkeys(record.model for record in self.records))

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the results."""
        return tuple(sorted({record.seed for record in self.records}))

    @property
    def failed(self) -> tuple[Record, ...]:
        """Cells that have an error instead of figures."""
        return tuple(record for record in self.records if record.error is not None)

    def list_records(self, corpus: str, task: str, model: str) -> list[Record]:
        """Return the finished cells of a model, one a seed."""
        return sorted(self._done.get((corpus, task, model), []), key=lambda record: record.seed)

    def list_models(self, corpus: str, task: str) -> tuple[str, ...]:
        """Return the models that have figures of a task."""
        return tuple(model for each, name, model in self._done if (each, name) == (corpus, task))

    def find(self, corpus: str, task: str, model: str, measure: str) -> Number | None:
        """Return a figure; None where no cell has it."""
        measures = [record.measures for record in self.list_records(corpus, task, model)]
        return average([each for each in measures if measure in each], measure)

    def find_any(self, corpus: str, task: str, measure: str) -> Number | None:
        """Return a figure that does not depend on the model, from whichever has it."""
        found = (self.find(corpus, task, model, measure) for model in self.list_models(corpus, task))
        return next((number for number in found if number is not None), None)

    def match(self, corpus: str, task: str, pattern: str) -> tuple[str, ...]:
        """Return what the star of a pattern stands for in the names of a task's measures, sorted."""
        expression = re.compile(re.escape(pattern).replace(r"\*", "([^/]+)"))
        names = {name for each in self.list_models(corpus, task) for name in self._list_measures(corpus, task, each)}
        return tuple(sorted({found.group(1) for name in names if (found := expression.fullmatch(name))}))

    def _list_measures(self, corpus: str, task: str, model: str) -> set[str]:
        return {name for record in self.list_records(corpus, task, model) for name in record.measures}


def average(measures: Sequence[Mapping[str, float]], name: str) -> Number | None:
    """Return the mean of a measure over seeds, with the deviation over seeds and, if it has one, over runs of each.

    >>> average([{"f1": 0.5, "f1_deviation": 0.3}, {"f1": 0.7, "f1_deviation": 0.3}], "f1")
    Number(value=0.6, deviation=0.3316624790355399, change=None)
    """
    if not measures:
        return None
    values = [each[name] for each in measures]
    within = [each[name + DEVIATION] ** 2 for each in measures if name + DEVIATION in each]
    if not within and len(values) == 1:
        return Number(values[0])
    # Variances add up: that of the runs of one seed, and that of the means of the seeds.
    between = stdev(values) ** 2 if len(values) > 1 else 0.0
    return Number(fmean(values), ((fmean(within) if within else 0.0) + between) ** 0.5)
