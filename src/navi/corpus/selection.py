"""Which tables and rows go into a corpus, and which of them are trained on, held out, or never seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from navi.corpus.hashing import Hashes, hash_text, hash_texts, mix
from navi.corpus.prepareconfig import PrepareConfig
from navi.errors import ConfigError, CorpusError
from navi.tables import ReadReport, Source

SPLITS = ("train", "validation", "test", "unseen")
"""Names of the split codes in `Corpus.row_split`."""
TRAIN, VALIDATION, TEST, UNSEEN = range(4)
VOCABULARY = "table not in the tokenizer's vocabulary"
"""Reason of dropped rows: too many of the table's text fields are mostly [UNK]."""
NOT_LARGEST = "table not among the largest"
"""Reason of dropped rows: `largest_tables` keeps larger ones."""
SAMPLED = "sampled down"
"""Reason of dropped rows: `total_rows` leaves no place for them."""


@dataclass(kw_only=True)
class Draft:
    """A source that was read and encoded, and what is decided about its rows."""

    source: Source
    chunks: Path
    """File with its encoded chunks."""
    report: ReadReport
    """What reading it lost."""
    num_rows: int = 0
    """Rows encoded."""
    num_text: int = 0
    """Cells of meaningful text."""
    num_bad: int = 0
    """Those among them that hold too much [UNK]."""
    trouble: str | None = None
    """Why reading ended early, or None."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Encoded rows that are left out, by reason."""
    is_unseen: bool = False
    """Whether the whole table is kept out of training."""

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.source.name

    @property
    def kept(self) -> int:
        """Rows that go into the corpus."""
        return self.num_rows - self.dropped.total()


def select_tables(drafts: Sequence[Draft], config: PrepareConfig) -> None:
    """Decide about each draft: vocabulary first, then the largest tables, then how many rows, then which are unseen."""
    rows = {draft.name: draft.num_rows for draft in drafts if draft.num_rows}
    is_checked = config.max_unknown_share is not None
    foreign = {draft.name for draft in drafts if is_checked and draft.num_bad > config.max_bad_share * draft.num_text}
    ranked = sorted(rows.keys() - foreign, key=lambda name: (-rows[name], name))
    quotas = share_rows({name: rows[name] for name in sorted(ranked[: config.largest_tables])}, config.total_rows)
    for draft in drafts:
        lost = draft.num_rows - quotas.get(draft.name, 0)
        reason = VOCABULARY if draft.name in foreign else SAMPLED if draft.name in quotas else NOT_LARGEST
        draft.dropped = Counter({reason: lost} if lost else {})
    kept = [name for name, quota in quotas.items() if quota]
    if not kept and foreign:
        raise CorpusError(
            f"No table is left: the tokenizer's vocabulary misses too much of {', '.join(sorted(foreign))}. "
            "Take another backbone, or switch the check off with max_unknown_share=None."
        )
    if not kept:
        troubles = [draft.trouble for draft in drafts if draft.trouble]
        files = "1 file was" if len(drafts) == 1 else f"{len(drafts)} files were"
        raise CorpusError(" ".join([f"No table has any row: {files} read.", *troubles[:3]]))
    unseen = choose_unseen(kept, config)
    for draft in drafts:
        draft.is_unseen = draft.name in unseen


def share_rows(rows: Mapping[str, int], total: int | None) -> dict[str, int]:
    """Return how many rows each table keeps of `total`, in proportion to what it has.

    What rounding leaves over goes to the largest remainders, so the sum is `total` exactly.

    >>> share_rows({"a": 60, "b": 30, "c": 10}, 11)
    {'a': 7, 'b': 3, 'c': 1}
    """
    available = sum(rows.values())
    if total is None or total >= available:
        return dict(rows)
    quotas = {name: count * total // available for name, count in rows.items()}
    by_remainder = sorted(rows, key=lambda name: (-(rows[name] * total % available), name))
    for name in by_remainder[: total - sum(quotas.values())]:
        quotas[name] += 1
    return quotas


def choose_unseen(tables: Sequence[str], config: PrepareConfig) -> frozenset[str]:
    """Return the names of the tables kept out of training: those named, or that many drawn by name and seed."""
    chosen = config.unseen_tables
    if isinstance(chosen, int):
        drawn = mix(hash_texts(tables), hash_text(f"unseen {config.seed}"))
        names = {tables[place] for place in np.argsort(drawn)[:chosen]}
    else:
        names = set(chosen)
    unknown = sorted(names - set(tables))
    if unknown:
        raise ConfigError(
            f"unseen_tables names {', '.join(unknown)}, which no table kept is called. "
            f"The tables are {', '.join(sorted(tables))}."
        )
    if len(names) >= len(tables):
        raise ConfigError(f"unseen_tables leaves no table to train on: {len(names)} of {len(tables)} are unseen.")
    return frozenset(names)


def split_rows(row_hash: Hashes, config: PrepareConfig) -> NDArray[np.int8]:
    """Return the split of each row: a matter of its content and the seed alone, so copies of a row stay together."""
    drawn = mix(row_hash, hash_text(f"split {config.seed}")) / 2.0**64
    splits = np.full(len(row_hash), TRAIN, np.int8)
    splits[drawn < config.validation_share + config.test_share] = TEST
    splits[drawn < config.validation_share] = VALIDATION
    return splits


def sample_rows(row_hash: Hashes, num_rows: int, seed: int) -> NDArray[np.bool_]:
    """Tell which rows of a table stay when it is sampled down: a matter of their content and the seed."""
    drawn = mix(row_hash, hash_text(f"sample {seed}"))
    stay = np.zeros(len(row_hash), np.bool_)
    stay[np.argsort(drawn, kind="stable")[:num_rows]] = True
    return stay
