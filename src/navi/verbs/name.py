"""Naming: headers for columns that have none, from their values and the rest of the row, blind to their own header."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from navi.columns import (
    COLUMNS_FILE,
    Background,
    ColumnProfiles,
    PairScorer,
    average_columns,
    choose_rows,
    is_useless,
    profile_columns,
)
from navi.corpus import Encoded
from navi.corpus.tokens import TextTokenizer
from navi.errors import TableError
from navi.tables import find_headers
from navi.verbs.result import TabularResult, tabulate

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from navi.verbs.navi import Navi

# Shape suffixes: K columns of the table, Q columns to name, C known headers, D hidden size, N masks, V vocabulary.

HIDDEN_SHARE = 0.25
"""Share of a table's columns whose useful headers are hidden at once."""
MODEL_WEIGHT = 3.0
"""What the model's cosines of a column's values with a known header, and with its values, count beside a point of the
pair scorer."""
TAKEN_COST = 0.5
"""What a candidate loses if another column of the table is surely that already."""
STEEPNESS = 2.0
"""What scores are multiplied by before they compete, so that the best is about as likely as it is often right."""
LIKELIHOOD_WEIGHT = 0.1
"""What a point of the model's log-likelihood of a free header counts."""
FREE_SHARE = 0.03
"""Probability that a column is none of the known ones, before anything is known of it."""
MAX_FREE_WORDS = 3
"""Tokens of the longest header that a model puts together."""
WIDE_ROWS = 3
"""Rows that are read of a table most of whose rows are longer than the model reads at once."""
FREE_TOKENS = 3
"""Single tokens proposed, the likeliest."""
LEAST_LIKELY = -2.0
"""Mean log-likelihood of a word from which it may be part of a free header: each is chosen without the others."""

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Tokens = dict[int, NDArray[np.float32]]
"""Log-likelihoods of all tokens at each [MASK], (Q, N, V), for some numbers of masks N."""


@dataclass(frozen=True, kw_only=True)
class NameCandidate:
    """A header proposed for a column."""

    header: str
    probability: float
    source: str
    """`known`: a header of the trained domain; `free`: words that the model put together."""
    like: str | None
    """The known column that is nearest, as `table.header`; None for free ones."""
    evidence: Mapping[str, float]
    """What speaks for it, as logarithms of odds: `values`, like those of a known column; `model`, how much less near
    it is than the nearest by the model's vectors, or how unlikely the words of a free one are; `taken`,
    negative if another column of the table is that already."""


@dataclass(frozen=True, kw_only=True)
class ColumnNames:
    """What a column may be called."""

    column: str
    """Its present header."""
    candidates: tuple[NameCandidate, ...]
    """The likeliest first."""

    def as_dict(self) -> dict[str, object]:
        """Return everything as plain lists and dictionaries, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Names(TabularResult):
    """What some columns of a table may be called."""

    columns: tuple[ColumnNames, ...]
    """One for each column asked for, in the table's order."""

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[ColumnNames]:
        return iter(self.columns)

    def __getitem__(self, place: int) -> ColumnNames:
        return self.columns[place]

    def to_arrow(self) -> pa.Table:
        """Return one line a candidate: the column, the header proposed, its probability, and where it comes from."""
        every = [(names.column, each) for names in self.columns for each in names.candidates]
        lines = [(column, each.header, each.probability, each.source, each.like) for column, each in every]
        text = pa.string()
        return tabulate(lines, column=text, header=text, probability=pa.float64(), source=text, like=text)


def name_columns(
    navi: Navi, frame: Any, columns: Sequence[str] | None = None, *, top: int = 5, rows: int = 40, free: bool = True
) -> Names:
    """Return the `top` likeliest headers of each column asked for; see `Navi.name_columns`."""
    encoded = navi.encode_whole(frame)
    if len(encoded.tables) != 1:
        raise TableError(f"Naming takes one table at a time, got {len(encoded.tables)}.")
    headers = [encoded.headers[int(number)].as_py() for number in encoded.arrays.column_header]
    wanted = set(headers) if columns is None else find_headers(headers, columns, encoded.tables[0])
    asked_K = np.array([header in wanted and (columns is not None or is_useless(header)) for header in headers])
    named: dict[int, ColumnNames] = {}
    if asked_K.any():
        namer = _Namer(navi, encoded, rows)
        for hidden_K in deal_columns(headers, asked_K):
            named = namer.name(hidden_K, asked_K, top, free=free) | named
    return Names(columns=tuple(named[column] for column in sorted(named)))


def deal_columns(headers: Sequence[str], asked_K: Flags) -> list[Flags]:
    """Return which columns to hide at once: always those with useless headers, of the others asked for a few."""
    useless_K = np.array([is_useless(header) for header in headers])
    useful = np.flatnonzero(asked_K & ~useless_K)
    num_passes = -(-len(useful) // max(1, int(HIDDEN_SHARE * len(headers)))) or 1
    passes = []
    for number in range(num_passes):
        hidden_K = useless_K.copy()
        hidden_K[useful[number::num_passes]] = True
        passes.append(hidden_K)
    return passes


class _Namer:
    """One table on its way to names."""

    def __init__(self, navi: Navi, encoded: Encoded, rows: int) -> None:
        self._runner = navi.runner
        self._scorer = PairScorer.load(navi.folder)
        self._profiles = profile_columns(navi.runner, TextTokenizer(navi.tokenizer), encoded)
        known = ColumnProfiles.load(navi.folder) if (navi.folder / COLUMNS_FILE).is_file() else None
        self._known = self._profiles.take(np.arange(0)) if known is None else known
        # The table's own columns stay out of the background: their headers must not show in it.
        self._background = Background([self._profiles if known is None else known])
        self._headers = KnownHeaders(self._known)
        self._words = list_words(navi.tokenizer)
        limit = navi.prepare_config.max_tokens
        if np.median(encoded.arrays.count_row_tokens()) > limit:
            rows = min(rows, WIDE_ROWS)
        chosen = choose_rows(encoded, np.arange(encoded.arrays.num_rows), rows)
        self._sample = encoded.arrays.take_rows(chosen).cut_rows(limit)

    def name(self, hidden_K: Flags, asked_K: Flags, top: int, *, free: bool) -> dict[int, ColumnNames]:
        """Return the names of the columns that are hidden and asked for, by number."""
        wanted = np.flatnonzero(hidden_K & asked_K)
        if len(wanted) == 0:
            return {}
        asked = self._profiles.take(wanted)
        values = self._scorer.score_values(asked, self._known, self._background).astype(np.float64)
        cosines = asked.vectors["value"] @ (self._known.vectors["header"] + self._known.vectors["value"]).T
        model = MODEL_WEIGHT * (cosines - cosines.max(axis=1, keepdims=True, initial=-2.0))
        taken = -TAKEN_COST * self._find_taken(np.flatnonzero(~hidden_K))
        score, nearest = self._headers.find_best(values + model + taken)
        tokens = self._read(hidden_K, np.searchsorted(np.flatnonzero(hidden_K), wanted)) if free else {}
        found = {}
        for row, number in enumerate(wanted.tolist()):
            own = {length: each[row] for length, each in tokens.items()}
            spelled = spell_free(own, self._words, set(self._known.attributes))
            candidates = []
            for place, probability in self._rank(score[row], spelled, top):
                if place < score.shape[1]:
                    column = int(nearest[row, place])
                    header, like = (
                        self._headers.headers[place],
                        f"{self._known.tables[column]}.{self._known.headers[column]}",
                    )
                    evidence = {"values": values[row, column], "model": model[row, column], "taken": taken[column]}
                else:
                    (header, likelihood), like = spelled[place - score.shape[1]], None
                    evidence = {"model": LIKELIHOOD_WEIGHT * likelihood}
                candidates.append(
                    NameCandidate(
                        header=header,
                        probability=probability,
                        source="free" if like is None else "known",
                        like=like,
                        evidence={name: float(points) for name, points in evidence.items()},
                    )
                )
            found[number] = ColumnNames(column=self._profiles.headers[number], candidates=tuple(candidates))
        return found

    def _read(self, hidden_K: Flags, place: Ints) -> Tokens:
        """Return what the model expects in the place of some hidden headers, by number of masks."""
        tokens: Tokens = {}
        # Parts of long rows that hold none of the columns asked for are not read.
        wanted_C = np.isin(self._sample.cell_column, np.flatnonzero(hidden_K)[place])
        sample = self._sample.take_rows(np.unique(self._sample.cell_row[wanted_C]))
        for length in range(1, MAX_FREE_WORDS + 1):
            found = average_columns(self._runner, sample, hidden_K, num_masks=length)
            tokens[length] = found[place].reshape(len(place), length, -1)
        return tokens

    def _find_taken(self, shown: Ints) -> Floats:
        """Return the probability that some shown column of the table is what each known column is."""
        if len(shown) == 0:
            return np.zeros(len(self._known))
        total = self._scorer.score_total(self._profiles.take(shown), self._known, self._background)
        taken: Floats = 1 / (1 + np.exp(-total.max(axis=0).astype(np.float64)))
        return taken

    def _rank(self, score: Floats, spelled: Sequence[tuple[str, float]], top: int) -> list[tuple[int, float]]:
        """Return places and probabilities of the best of the known headers and, behind them, the free ones.

        Where none is known there is nothing to weigh the free ones against: each is as likely as its words.
        """
        if len(score) == 0:
            return [(place, float(np.exp(likelihood))) for place, (_, likelihood) in enumerate(spelled[:top])]
        chance = np.log(FREE_SHARE * max(len(score), 1))
        free = [chance + LIKELIHOOD_WEIGHT * likelihood for _, likelihood in spelled]
        logits = np.concatenate([score, free]) * STEEPNESS
        odds = np.exp(logits - logits.max(initial=-np.inf))
        return [(place, float(odds[place] / odds.sum())) for place in np.argsort(-odds, kind="stable")[:top].tolist()]


class KnownHeaders:
    """The headers of known columns, one for each of C attributes; those that say nothing are left out."""

    def __init__(self, known: ColumnProfiles) -> None:
        members: dict[str, list[int]] = {}
        for place, (header, attribute) in enumerate(zip(known.headers, known.attributes, strict=True)):
            if not is_useless(header):
                members.setdefault(attribute, []).append(place)
        self.attributes = sorted(members)
        self.columns = [np.array(members[attribute]) for attribute in self.attributes]
        """(C,) the known columns of each."""
        counted = (Counter(known.headers[place] for place in columns) for columns in self.columns)
        self.headers = [each.most_common(1)[0][0] for each in counted]
        """(C,) each one's header, the one that most tables have."""

    def find_best(self, score: Floats) -> tuple[Floats, Ints]:
        """Return each header's best score over its known columns, and which column gives it: (Q, C) twice."""
        best = np.zeros((len(score), len(self.columns)))
        nearest = np.zeros(best.shape, np.int64)
        for place, columns in enumerate(self.columns):
            best[:, place] = score[:, columns].max(axis=1)
            nearest[:, place] = columns[score[:, columns].argmax(axis=1)]
        return best, nearest


def list_words(tokenizer: Tokenizer) -> tuple[tuple[str, ...], Ints]:
    """Return the tokens of a vocabulary that are whole words of letters, and their numbers."""
    vocabulary = tokenizer.get_vocab()
    words = sorted(word for word in vocabulary if len(word) > 1 and word.isalpha())
    return tuple(words), np.array([vocabulary[word] for word in words], np.int64)


def spell_free(
    tokens: Mapping[int, NDArray[np.float32]], words: tuple[Sequence[str], Ints], known: Collection[str]
) -> list[tuple[str, float]]:
    """Return headers that are not known, with their log-likelihoods, put together from the likeliest words.

    `tokens` has (N, V) for some numbers of masks N; `words` are those allowed, and their tokens. No word comes twice.
    """
    texts, numbers = words
    spelled: dict[str, float] = {}
    for length, table in tokens.items():
        if not texts:
            break
        allowed = table[:, numbers]
        for rank in range(min(FREE_TOKENS, len(texts)) if length == 1 else 1):
            chosen = np.argsort(-allowed, axis=1)[:, rank]
            text = " ".join(texts[place] for place in chosen)
            likelihood = float(allowed[np.arange(length), chosen].sum())
            distinct = len(set(chosen.tolist())) == length
            if distinct and likelihood >= LEAST_LIKELY * length and text not in known and not is_useless(text):
                spelled.setdefault(text, likelihood)
    return sorted(spelled.items(), key=lambda each: -each[1])


def choose_names(names: Iterable[ColumnNames], taken: Iterable[str], *, confidence: float = 0.0) -> dict[str, str]:
    """Return {present header: new header} for columns with a candidate of that confidence, no header twice.

    The surest column chooses first; what is taken, by another column or among `taken`, nobody else gets.
    """
    used = {header.casefold() for header in taken}
    chosen: dict[str, str] = {}
    for each in sorted(names, key=lambda each: -max((one.probability for one in each.candidates), default=0.0)):
        for candidate in each.candidates:
            if candidate.probability >= confidence and candidate.header.casefold() not in used:
                chosen[each.column] = candidate.header
                used.add(candidate.header.casefold())
                break
    return chosen


def apply_names(frame: Any, names: Iterable[ColumnNames], *, confidence: float = 0.0) -> Any:
    """Return the frame, of its own kind, with the columns renamed; see `choose_names` for which and to what."""
    import narwhals as nw

    if isinstance(frame, Mapping):
        return apply_names([frame], names, confidence=confidence)[0]
    names, is_rows = list(names), isinstance(frame, list | tuple)
    headers = dict.fromkeys(header for row in frame for header in row) if is_rows else nw.from_native(frame).columns
    named = {each.column for each in names}
    chosen = choose_names(names, [header for header in headers if header not in named], confidence=confidence)
    if is_rows:
        return [{chosen.get(header, header): value for header, value in row.items()} for row in frame]
    return nw.from_native(frame).rename(chosen).to_native()
