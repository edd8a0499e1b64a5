"""The same rows in another shape: columns in another order, under other headers (synonyms, typos), or left out.

Every view is a pure function from `SegmentArrays` to `SegmentArrays`; rows keep their numbers. Views that leave columns
out or rename them number the columns again, sorted by table and header as ever, each with its role.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from string import ascii_lowercase
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from navi.corpus import canonicalise, load_attributes
from navi.corpus.arrays import SegmentArrays, count_up
from navi.corpus.tokens import TextTokenizer
from navi.randomness import fold, make_key, order_keys
from navi_paper.gold import name_columns
from navi_paper.table_encoder import Bools

if TYPE_CHECKING:
    from navi.corpus import Corpus

# Shape suffixes: R rows, C cells, S distinct segments, K columns.

_SYNONYMS, _TYPOS, _EDITS = range(3)
_BITS = (1 << 64) - 1
"""Makes a key unsigned, so that its remainders are those of its bits."""


def permute_columns(arrays: SegmentArrays, *, seed: int = 0) -> SegmentArrays:
    """Return the rows with their cells in another order, drawn for each row by itself."""
    row_C = arrays.cell_row
    keys_C = fold(fold(make_key(seed), np.arange(arrays.num_rows))[row_C], count_up(np.diff(arrays.row_offsets)))
    return replace(arrays, row_segments=arrays.row_segments[np.lexsort((order_keys(keys_C), row_C))])


def hide_columns(arrays: SegmentArrays, hidden_K: Bools) -> SegmentArrays:
    """Return the rows without the cells of some columns; a row may be left without any."""
    shown_C = ~hidden_K[arrays.cell_column]
    counts_R = np.bincount(arrays.cell_row[shown_C], minlength=arrays.num_rows)
    return replace(
        arrays,
        row_offsets=np.concatenate([[0], np.cumsum(counts_R)]).astype(np.int64),
        row_segments=arrays.row_segments[shown_C],
        column_table=arrays.column_table[~hidden_K],
        column_header=arrays.column_header[~hidden_K],
        column_attribute=arrays.column_attribute[~hidden_K],
        column_role=arrays.column_role[~hidden_K],
    )


def rename_columns(
    arrays: SegmentArrays, corpus: Corpus, names: Mapping[int, str], *, spelled: Bools | None = None
) -> SegmentArrays:
    """Return the rows with other headers in some columns (column of `arrays` → new header).

    A column's attribute becomes what the corpus would have made of the new header: who meets an unseen header knows
    nothing else of it. The cells in `spelled` (C,) keep the tokens of the old header, but not its attribute:
    so a header that is to be guessed is guessed as it was written, while an encoder that is given attributes is given
    that of the new one.
    """
    assert len(arrays.header_offsets) == len(corpus.headers) + 1, "the headers are not the corpus's own"
    columns = np.array(sorted(names), dtype=np.int64)
    texts = [names[int(column)] for column in columns]
    mapping = load_attributes(corpus.config.attributes)
    tables = [corpus.tables[table] for table in arrays.column_table[columns]]
    meant = [mapping.attribute_of(table, text) for table, text in zip(tables, texts, strict=True)]
    arrays, header_of = _append_texts(arrays, corpus, "header", texts)
    arrays, attribute_of = _append_texts(arrays, corpus, "attribute", meant)
    column_C = arrays.cell_column
    changed_C = np.isin(column_C, columns)
    place = np.searchsorted(columns, column_C[changed_C])
    own = arrays.segment_header[arrays.row_segments[changed_C]]
    headers = header_of[place] if spelled is None else np.where(spelled[changed_C], own, header_of[place])
    return _change_cells(arrays, changed_C, headers, attribute_of[place])


def _append_texts(
    arrays: SegmentArrays, corpus: Corpus, part: str, texts: list[str]
) -> tuple[SegmentArrays, NDArray[np.int64]]:
    """Give texts that are new numbers of their own, with tokens; also return the number of each text."""
    known: dict[str, int] = {text: number for number, text in enumerate(getattr(corpus, f"{part}s").to_pylist())}
    fresh = [text for text in dict.fromkeys(texts) if text not in known]
    known.update({text: len(known) + place for place, text in enumerate(fresh)})
    numbers = np.array([known[text] for text in texts], dtype=np.int64)
    if not fresh:
        return arrays, numbers
    made = TextTokenizer(corpus.tokenizer).tokenise(fresh, corpus.config.max_header_tokens)
    offsets, tokens = getattr(arrays, f"{part}_offsets"), getattr(arrays, f"{part}_tokens")
    changes = {
        f"{part}_offsets": np.concatenate([offsets, offsets[-1] + made.offsets[1:]]),
        f"{part}_tokens": np.concatenate([tokens, made.tokens]),
    }
    return replace(arrays, **changes), numbers


def _change_cells(
    arrays: SegmentArrays, changed_C: Bools, header: NDArray[np.integer], attribute: NDArray[np.integer]
) -> SegmentArrays:
    """Give some cells another header and attribute, each distinct segment once, and number the columns again."""
    # A header made for this view has no column yet, so roles are looked up before the cells change.
    role_C = arrays.column_role[arrays.cell_column]
    value = arrays.segment_value[arrays.row_segments[changed_C]]
    made, which = np.unique(np.stack([attribute, header, value]).astype(np.int32), axis=1, return_inverse=True)
    row_segments = np.array(arrays.row_segments)
    row_segments[changed_C] = arrays.num_segments + which.reshape(-1)
    arrays = replace(
        arrays,
        row_segments=row_segments,
        segment_attribute=np.concatenate([arrays.segment_attribute, made[0]]),
        segment_header=np.concatenate([arrays.segment_header, made[1]]),
        segment_value=np.concatenate([arrays.segment_value, made[2]]),
    )
    # Columns are sorted by table and header; each takes role and attribute of its first cell.
    num_headers = arrays.num_headers
    table_C = arrays.row_table[arrays.cell_row].astype(np.int64)
    keys, first = np.unique(table_C * num_headers + arrays.segment_header[arrays.row_segments], return_index=True)
    return replace(
        arrays,
        column_table=(keys // num_headers).astype(np.int32),
        column_header=(keys % num_headers).astype(np.int32),
        column_attribute=arrays.segment_attribute[arrays.row_segments[first]],
        column_role=role_C[first],
    )


def draw_synonyms(
    corpus: Corpus,
    synonyms: Mapping[str, Sequence[str]],
    eligible_K: Bools,
    *,
    share: float = 0.5,
    seed: int = 0,
) -> dict[int, str]:
    """Return unseen synonyms for a share of the eligible columns, or for as many of them as have any.

    A synonym belongs to a header by its canonical words, so that of `release_year` serves `Release Year` too. One that
    the corpus has, or another column of the table got, is not taken.
    """
    known = {canonicalise(header): tuple(others) for header, others in synonyms.items()}
    taken = {canonicalise(header) for header in corpus.headers.to_pylist()}
    _, headers = name_columns(corpus)
    used: set[tuple[int, str]] = set()
    drawn: dict[int, str] = {}
    limit = int(np.ceil(share * eligible_K.sum()))
    for column, key in _shuffle(eligible_K, seed, _SYNONYMS):
        table = int(corpus.arrays.column_table[column])
        others = [
            other
            for other in known.get(canonicalise(headers[column]), ())
            if canonicalise(other) not in taken and (table, other) not in used
        ]
        if others and len(drawn) < limit:
            drawn[column] = others[key % len(others)]
            used.add((table, drawn[column]))
    return drawn


def draw_typos(corpus: Corpus, eligible_K: Bools, *, share: float = 0.5, seed: int = 0) -> dict[int, str]:
    """Return misspelled headers, each one or two edits away, for a share of the eligible columns."""
    _, headers = name_columns(corpus)
    taken = {canonicalise(header) for header in corpus.headers.to_pylist()}
    limit = int(np.ceil(share * eligible_K.sum()))
    chosen = list(_shuffle(eligible_K, seed, _TYPOS))[:limit]
    return {column: misspell(headers[column], key, taken) for column, key in chosen}


def misspell(text: str, key: int, taken: set[str]) -> str:
    """Return a text one or two edits away whose canonical words are not among those taken; the key decides which.

    An edit drops, doubles or replaces a letter, or swaps it with the next.
    """
    taken = taken | {canonicalise(text), ""}
    stream = make_key(key, _EDITS)
    draws = (int(fold(stream, np.array([number]))[0]) & _BITS for number in count())
    while True:
        found = text
        for _ in range(1 + next(draws) % 2):
            found = _edit(found, next(draws) % 4, next(draws), next(draws))
        if canonicalise(found) not in taken:
            return found


def _edit(text: str, kind: int, where: int, what: int) -> str:
    place = where % len(text) if text else 0
    before, letter, after = text[:place], text[place : place + 1], text[place + 1 :]
    another = ascii_lowercase[what % len(ascii_lowercase)]
    return before + ("", letter + letter, another, after[:1] + letter)[kind] + (after if kind < 3 else after[1:])


def _shuffle(eligible_K: Bools, seed: int, purpose: int) -> Iterator[tuple[int, int]]:
    """Yield the eligible columns in an order that the seed decides, each with a key of its own."""
    columns = np.flatnonzero(eligible_K)
    keys = fold(make_key(seed, purpose), columns)
    for place in np.argsort(order_keys(keys), kind="stable"):
        yield int(columns[place]), int(keys[place]) & _BITS
