"""Guesses for gaps: the likeliest of the values a column may take, or a value put together token by token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from navi.corpus import Encoded
from navi.model.runner import Runner
from navi.training import Domain
from navi.verbs.guessing.blend import Blend, Choice, Floats
from navi.verbs.guessing.columnvalues import ColumnValues
from navi.verbs.guessing.config import GuessConfig
from navi.verbs.guessing.gaps import Gaps, Ints, sort_cells
from navi.verbs.guessing.generation import Generator
from navi.verbs.guessing.weighing import EvidenceCollector

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Shape suffixes: M gaps.

KNOWN, GENERATED = "known", "generated"
"""Kinds of guesses: chosen from the values a column may take, or put together by the model."""
CHOICES_KEPT = 64
"""Likeliest values of a cell that weights are fitted to."""


@dataclass(frozen=True, kw_only=True)
class Guesses:
    """At most one guess a gap, all of one kind.

    **Shape**: M gaps.
    """

    kind: str
    """KNOWN or GENERATED."""
    texts: tuple[str | None, ...]
    """(M,) the value as the column would write it; None where there is none."""
    tokens: tuple[tuple[int, ...], ...]
    """(M,) tokens of the value, also of one that the column's format did not allow; empty where nothing was guessed."""
    raw: Floats
    """(M,) raw probability; 0 where nothing was guessed."""


class Guesser:
    """Guesses the values of gaps from a model and from the rows that may serve as evidence.

    The evidence rows must not hold what is asked for: rows whose cells are hidden to measure with are not among them.
    """

    def __init__(
        self,
        runner: Runner,
        encoded: Encoded,
        tokenizer: Tokenizer,
        *,
        rows: Ints | None = None,
        domain: Domain | None = None,
        max_tokens: int = 20,
        blend: Blend | None = None,
        config: GuessConfig | None = None,
    ) -> None:
        arrays = encoded.arrays
        rows = np.arange(arrays.num_rows) if rows is None else rows
        self._config, self.blend = config or GuessConfig(), blend or Blend()
        cells = sort_cells(arrays, rows)
        self.columns = ColumnValues(
            encoded, cells, tokenizer, domain, max_values=self._config.max_values, max_tokens=max_tokens
        )
        self._evidence = EvidenceCollector(runner, arrays, rows, cells, self.columns, self._config)
        self._generator = Generator(runner, arrays, tokenizer)

    def rank(self, gaps: Gaps, progress: Callable[[int], None] | None = None) -> Guesses:
        """Return the likeliest of the values that each gap's column may take."""
        best, raw = np.full(len(gaps), -1, np.int64), np.zeros(len(gaps))
        for places, evidence in self._evidence.collect(gaps, self.blend):
            for gap, one in zip(places.tolist(), evidence, strict=True):
                if one.shape[1]:
                    chances = self.blend.weigh(one, self.columns[int(gaps.column[gap])].values.unseen)
                    best[gap], raw[gap] = chances.argmax(), chances.max()
            if progress:
                progress(len(places))
        sets = [self.columns[column].values for column in gaps.column.tolist()]
        chosen = list(zip(sets, best.tolist(), strict=True))
        return Guesses(
            kind=KNOWN,
            texts=tuple(values.texts[number] if number >= 0 else None for values, number in chosen),
            tokens=tuple(values.tokens[number] if number >= 0 else () for values, number in chosen),
            raw=raw,
        )

    def list_choices(self, gaps: Gaps, truth: Sequence[tuple[int, ...]]) -> list[Choice]:
        """Return the evidence for the likeliest values of gaps whose true values are known, to fit a blend to."""
        choices: list[Choice] = []
        for places, evidence in self._evidence.collect(gaps, self.blend):
            for gap, one in zip(places.tolist(), evidence, strict=True):
                values = self.columns[int(gaps.column[gap])].values
                chances = self.blend.weigh(one, values.unseen)
                likely = np.argsort(-chances, kind="stable")[:CHOICES_KEPT]
                likely = likely[chances[likely] > 0]
                right = [number for number, place in enumerate(likely.tolist()) if values.tokens[place] == truth[gap]]
                if len(likely):
                    choices.append(
                        Choice(evidence=one[:, likely], unseen=values.unseen, truth=right[0] if right else len(likely))
                    )
        return choices

    def generate(self, gaps: Gaps) -> Guesses:
        """Return values put together by the model for the gaps of open columns; nothing for the others."""
        asked = [(gap, *pair) for gap, column in enumerate(gaps.column.tolist()) for pair in self._list_lengths(column)]
        texts: list[str | None] = [None] * len(gaps)
        tokens: list[tuple[int, ...]] = [()] * len(gaps)
        raw = np.zeros(len(gaps))
        if asked:
            gap_P = np.array([gap for gap, _, _ in asked])
            lengths = np.array([length for _, length, _ in asked])
            generated = self._generator.generate(gaps.take(gap_P), lengths, self._config.rounds)
            for number, (gap, _, share) in enumerate(asked):
                found, logp = generated.of(number)
                chance = float(share * np.exp(logp.mean()))
                if chance > raw[gap]:
                    tokens[gap], raw[gap] = found, chance
        for gap, column in enumerate(gaps.column.tolist()):
            if tokens[gap]:
                known = self.columns[column]
                texts[gap] = known.format.render(known.spelling.write(tokens[gap]))
        return Guesses(kind=GENERATED, texts=tuple(texts), tokens=tuple(tokens), raw=raw)

    def _list_lengths(self, column: int) -> list[tuple[int, float]]:
        """Return the lengths to try in a column, each with its share of cells; none for a column that is not open."""
        above = self._config.generate_above
        if above is None or self.columns[column].values.unseen <= above:
            return []
        lengths, shares = self.columns[column].share_lengths()
        some = slice(self._config.generated_lengths)
        return list(zip(lengths[some].tolist(), shares[some].tolist(), strict=True))
