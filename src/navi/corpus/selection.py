"""Selection: which tables and rows of the drafts go into the corpus, and why the others do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from navi.corpus.config import PrepareConfig
from navi.corpus.drafts import Draft
from navi.corpus.pieces import Piece
from navi.corpus.scratch import read_pieces
from navi.corpus.splits import UNSEEN, choose_largest, choose_unseen, sample_rows, share_rows, split_rows
from navi.errors import CorpusError

VOCABULARY = "table not in the tokenizer's vocabulary"
"""Reason of dropped rows: too many of the table's text fields are mostly [UNK]."""
NOT_LARGEST = "table not among the largest"
"""Reason of dropped rows: `largest_tables` keeps larger ones."""
SAMPLED = "sampled down"
"""Reason of dropped rows: `total_rows` leaves no place for them."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """A draft with what was decided about it."""

    draft: Draft
    dropped: Counter[str] = field(default_factory=Counter)
    """Rows left out, by reason."""
    is_unseen: bool = False
    """Whether the whole table is kept out of training."""

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.draft.source.name

    @property
    def kept(self) -> int:
        """Rows that go into the corpus."""
        return self.draft.num_rows - self.dropped.total()


def select(drafts: Sequence[Draft], config: PrepareConfig) -> list[Selection]:
    """Decide about each draft: vocabulary first, then the largest tables, then how many rows; sorted by name."""
    drafts = sorted(drafts, key=lambda draft: draft.source.name)
    dropped = {draft.source.name: Counter[str]() for draft in drafts}
    rows = {draft.source.name: draft.num_rows for draft in drafts if draft.num_rows}
    foreign = {draft.source.name for draft in drafts if is_foreign(draft, config)}
    largest = choose_largest(
        {name: count for name, count in rows.items() if name not in foreign}, config.largest_tables
    )
    quotas = share_rows({name: rows[name] for name in sorted(largest)}, config.total_rows)
    for name, count in rows.items():
        if name in foreign:
            dropped[name][VOCABULARY] = count
        elif name not in largest:
            dropped[name][NOT_LARGEST] = count
        elif quotas[name] < count:
            dropped[name][SAMPLED] = count - quotas[name]
    kept = [name for name, quota in quotas.items() if quota]
    if not kept:
        raise CorpusError(_explain_nothing(drafts, foreign))
    unseen = choose_unseen(kept, config)
    return [
        Selection(draft=draft, dropped=dropped[draft.source.name], is_unseen=draft.source.name in unseen)
        for draft in drafts
    ]


def is_foreign(draft: Draft, config: PrepareConfig) -> bool:
    """Tell whether the tokenizer's vocabulary misses too many of the table's text fields."""
    return config.max_unknown_share is not None and draft.fields.bad > config.max_bad_share * draft.fields.text


def iterate_rows(
    selection: Selection, config: PrepareConfig
) -> Iterator[tuple[Piece, NDArray[np.int8], NDArray[np.bool_] | None]]:
    """Yield the pieces of a table, each with the split of its rows and, unless all do, which of them stay."""
    stay = _sample(selection, config)
    begin = 0
    for piece in read_pieces(selection.draft.pieces):
        end = begin + piece.num_rows
        if selection.is_unseen:
            splits = np.full(piece.num_rows, UNSEEN, np.int8)
        else:
            splits = split_rows(piece.row_hash, config)
        yield piece, splits, None if stay is None else stay[begin:end]
        begin = end


def _sample(selection: Selection, config: PrepareConfig) -> NDArray[np.bool_] | None:
    if not selection.dropped[SAMPLED]:
        return None
    hashes = [piece.row_hash for piece in read_pieces(selection.draft.pieces)]
    return sample_rows(np.concatenate(hashes), selection.kept, config.seed)


def _explain_nothing(drafts: Sequence[Draft], foreign: set[str]) -> str:
    if foreign:
        return (
            f"No table is left: the tokenizer's vocabulary misses too much of {', '.join(sorted(foreign))}. "
            "Take another backbone, or switch the check off with max_unknown_share=None."
        )
    troubles = [draft.trouble for draft in drafts if draft.trouble]
    return " ".join([f"No table has any row: {len(drafts)} files were read.", *troubles[:3]])
