"""Naming: headers for columns that have none, from their values and the rest of the row, blind to their own header."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from navi.columns import Background, ColumnProfiles, PairScorer, is_useless
from navi.columns.columns import COLUMNS_FILE
from navi.columns.sketches import sketch_columns
from navi.columns.states import STATES, choose_rows
from navi.corpus import Encoded
from navi.errors import ModelError, TableError
from navi.tables import find_headers
from navi.verbs.candidates import list_candidates, list_words, spell_free
from navi.verbs.embedding import embed_attributes
from navi.verbs.likelihood import Blind, read_blind
from navi.verbs.matching import PARTNER_SHARE
from navi.verbs.profiling import Knowledge, list_headers

if TYPE_CHECKING:
    from navi.verbs.navi import Navi

# Shape suffixes: K columns of the table, Q columns to name, C candidates, D hidden size.

MAX_MASKS = 4
"""Tokens of the longest header that the model is asked about."""
HIDDEN_SHARE = 0.25
"""Share of a table's columns whose useful headers are hidden at once."""
LIKELIHOOD_WEIGHT = 0.1
"""What a point of the model's log-likelihood of a header counts beside a point of the pair scorer."""
LIKELIHOOD_FLOOR = -25.0
"""Below this, log-likelihoods say nothing more."""
TAKEN_COST = 2.0
"""What a candidate loses if another column of the table is surely that already."""
FREE_SHARE = 0.03
"""Probability that a column is none of the known ones, before anything is known of it."""

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A header proposed for a column."""

    header: str
    probability: float
    source: str
    """`known`: a header of the trained domain; `free`: words that the model put together."""
    like: str | None
    """The known column that is nearest, as `table.header`; None for free ones."""
    evidence: Mapping[str, float]
    """What speaks for it, as logarithms of odds: `values`, like those of a known column; `model`, its likelihood;
    `taken`, negative if another column of the table is that already."""


@dataclass(frozen=True, kw_only=True)
class ColumnNames:
    """What a column may be called."""

    column: str
    """Its present header."""
    candidates: tuple[Candidate, ...]
    """The likeliest first."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain lists and dictionaries, ready for JSON."""
        listed = [{**vars(each), "evidence": dict(each.evidence)} for each in self.candidates]
        return {"column": self.column, "candidates": listed}


def name_columns(
    navi: Navi,
    frame: Any,
    columns: Sequence[str] | None = None,
    *,
    top: int = 5,
    rows: int = 40,
    free: bool = True,
) -> list[ColumnNames]:
    """Return the `top` likeliest headers of each column asked for; None asks for those whose header says nothing.

    Nothing of a column's own header is seen, nor any other header that says nothing. Evidence is gathered over `rows`
    rows for the model and over all for the values. With `free`, words that are no known header are proposed too.
    """
    encoded = navi.encode(frame)
    if len(encoded.tables) != 1:
        raise TableError(f"Naming takes one table at a time, got {len(encoded.tables)}.")
    headers = [encoded.headers[int(number)].as_py() for number in encoded.arrays.column_header]
    wanted = find_headers(headers, columns, encoded.tables[0]) if columns is not None else set(headers)
    asked_K = np.array([header in wanted and (columns is not None or is_useless(header)) for header in headers])
    if not asked_K.any():
        return []
    namer = Namer(navi, encoded, headers, rows)
    named: dict[int, ColumnNames] = {}
    for hidden_K in deal_columns(headers, asked_K):
        for column, names in namer.name(hidden_K, asked_K, top, free=free).items():
            named.setdefault(column, names)
    return [named[column] for column in sorted(named)]


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


class Namer:
    """One table on its way to names."""

    def __init__(self, navi: Navi, encoded: Encoded, headers: Sequence[str], rows: int) -> None:
        knowledge = Knowledge.of(navi.folder)
        if knowledge.columns is None:
            raise ModelError(f"The model in {navi.folder} has no {COLUMNS_FILE}, which naming needs. Pretrain again.")
        self._navi, self._headers = navi, headers
        self._known: ColumnProfiles = knowledge.columns
        self._scorer: PairScorer = knowledge.scorer
        # The table's own columns stay out of the background: their headers must not show in it.
        self._background = Background([self._known])
        self._candidates = list_candidates(self._known, navi.tokenizer)
        self._words = list_words(navi.tokenizer)
        self._known_attributes = frozenset(self._known.attributes)
        every = np.arange(encoded.arrays.num_rows)
        self._sample = encoded.arrays.take_rows(choose_rows(encoded, every, rows))
        attributes = embed_attributes(navi.runner, encoded.arrays)[encoded.arrays.column_attribute]
        self._profiles = ColumnProfiles(
            tables=(encoded.tables[0],) * len(headers),
            headers=tuple(headers),
            attributes=tuple(headers),
            sketches=sketch_columns(encoded, every),
            states={name: attributes if name == "attribute" else np.zeros_like(attributes) for name in STATES},
        )

    def name(self, hidden_K: Flags, asked_K: Flags, top: int, *, free: bool) -> dict[int, ColumnNames]:
        """Return the names of the columns that are hidden and asked for."""
        wanted = np.flatnonzero(hidden_K & asked_K)
        if len(wanted) == 0:
            return {}
        place = np.searchsorted(np.flatnonzero(hidden_K), wanted)
        blind = self._read(hidden_K, place)
        values = self._compare_values(wanted, blind[1])
        taken = self._find_taken(np.flatnonzero(~hidden_K))
        tokens = {length: each.tokens for length, each in blind.items()}
        score, column = self._candidates.find_best(values - TAKEN_COST * taken)
        model = LIKELIHOOD_WEIGHT * np.maximum(self._candidates.measure_likelihood(tokens), LIKELIHOOD_FLOOR)
        found = {}
        for row, number in enumerate(wanted.tolist()):
            own = {length: each[row] for length, each in tokens.items()}
            spelled = spell_free(own, self._words, self._known_attributes) if free else []
            ranked = self._rank(score[row] + model[row], spelled, top)
            found[number] = ColumnNames(
                column=self._headers[number],
                candidates=tuple(
                    self._make_known(place, probability, column[row], values[row], model[row], taken)
                    if isinstance(place, int)
                    else _make_free(place, probability)
                    for place, probability in ranked
                ),
            )
        return found

    def _read(self, hidden_K: Flags, place: Ints) -> dict[int, Blind]:
        """Return what the model says of the columns wanted, by number of masks."""
        lengths = sorted({1, *(length for length in self._candidates.lengths if length <= MAX_MASKS)})
        read = {length: read_blind(self._navi.runner, self._sample, hidden_K, length) for length in lengths}
        return {length: each.take(place) for length, each in read.items()}

    def _compare_values(self, wanted: Ints, blind: Blind) -> Floats:
        """Return how much values speak for the same meaning, for each column wanted and each known one."""
        profiles = self._profiles.take(wanted)
        profiles.states.update(blind_header=blind.headers, blind_value=blind.values)
        return self._scorer.score(profiles, self._known, self._background).values.astype(np.float64)

    def _find_taken(self, shown: Ints) -> Floats:
        """Return the probability that some shown column of the table is what each known column is."""
        if len(shown) == 0:
            return np.zeros(len(self._known))
        total = self._scorer.score(self._profiles.take(shown), self._known, self._background).total
        prior = np.log(PARTNER_SHARE / len(self._headers))
        taken: Floats = 1 / (1 + np.exp(-(total.max(axis=0).astype(np.float64) + prior)))
        return taken

    def _rank(
        self, score: Floats, spelled: Sequence[tuple[str, float]], top: int
    ) -> list[tuple[int | tuple[str, float], float]]:
        """Return the best of known candidates (by number) and free ones (text, log-likelihood), with probabilities."""
        chance = np.log(FREE_SHARE * max(len(score), 1))
        free = [chance + LIKELIHOOD_WEIGHT * max(likelihood, LIKELIHOOD_FLOOR) for _, likelihood in spelled]
        logits = np.concatenate([score, free]) / self._scorer.temperature
        odds = np.exp(logits - logits.max())
        best = np.argsort(-odds, kind="stable")[:top].tolist()
        every: list[int | tuple[str, float]] = [*range(len(score)), *spelled]
        return [(every[place], float(odds[place] / odds.sum())) for place in best]

    def _make_known(
        self, place: int, probability: float, column: Ints, values: Floats, model: Floats, taken: Floats
    ) -> Candidate:
        nearest = int(column[place])
        return Candidate(
            header=self._candidates.headers[place],
            probability=probability,
            source="known",
            like=f"{self._known.tables[nearest]}.{self._known.headers[nearest]}",
            evidence={
                "values": float(values[nearest]),
                "model": float(model[place]),
                "taken": float(-TAKEN_COST * taken[nearest]),
            },
        )


def _make_free(spelled: tuple[str, float], probability: float) -> Candidate:
    text, likelihood = spelled
    evidence = {"model": LIKELIHOOD_WEIGHT * likelihood}
    return Candidate(header=text, probability=probability, source="free", like=None, evidence=evidence)


def choose_names(names: Sequence[ColumnNames], taken: Sequence[str], *, confidence: float = 0.0) -> dict[str, str]:
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


def apply_names(frame: Any, names: Sequence[ColumnNames], *, confidence: float = 0.0) -> Any:
    """Return the frame, of its own kind, with the columns renamed; see `choose_names` for which and to what."""
    import narwhals as nw

    present = [header for header in list_headers(frame) if header not in {each.column for each in names}]
    chosen = choose_names(names, present, confidence=confidence)
    if isinstance(frame, Mapping):
        return {chosen.get(header, header): value for header, value in frame.items()}
    if isinstance(frame, list | tuple):
        return [{chosen.get(header, header): value for header, value in row.items()} for row in frame]
    return nw.from_native(frame).rename(chosen).to_native()
