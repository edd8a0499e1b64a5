"""What a person looks at and decides on: the tables of a folder, their columns in clusters, and a file of decisions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import RLock
from time import monotonic, sleep
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.columns import ColumnProfiles, PairScorer
from navi.corpus import ROLES, PrepareConfig
from navi.corpus.roles import assign_roles, measure_entropy
from navi.errors import ConfigError, NaviError
from navi.server.jobs import Tasks
from navi.server.rows import RowReview
from navi.tables import ReadConfig, Table, read_tables, write_table
from navi.verbs import Navi
from navi.verbs.explain import Explainer
from navi.verbs.impute import Fills
from navi.verbs.match import (
    DECISION_COLUMNS,
    ColumnGroups,
    ColumnMatcher,
    ColumnRef,
    Decision,
    Matches,
    Reason,
    profile_tables,
    read_decisions,
)
from navi.verbs.unify import Unified, leave_out_members, plan_unify, unify

NUM_EXAMPLES, NUM_BARS = 6, 24
PAUSE = 0.05
"""Seconds that a page is given before columns are matched again, where that takes long."""
SURE = 0.8
"""Probability from which a member of a cluster is not in doubt."""
MAX_EXAMPLE = 20_000
"""Characters of an example; no more are sent to a page."""
NOTHING = ColumnRef("", "")


@dataclass(frozen=True, kw_only=True)
class ColumnFacts:
    """A column as a person would look at it."""

    header: str
    fill: float
    distinct: int
    role: str
    examples: tuple[str, ...]
    """The most frequent values."""
    bars: tuple[float, ...]
    """How numbers are distributed over their range, or how frequent the most frequent values are; at most 1."""
    bars_text: str
    trouble: str


@dataclass(frozen=True, kw_only=True)
class Member:
    """A column in a cluster."""

    place: int
    """Its number among all columns."""
    column: ColumnRef
    facts: ColumnFacts
    probability: float | None
    """Mean over its pairs; None for one that stands alone."""
    decided: bool
    partner: int | None
    """The likeliest other one, of another table; None for one that stands alone."""


@dataclass(frozen=True, kw_only=True)
class Card:
    """A cluster as a person decides on it."""

    name: str
    members: tuple[Member, ...]
    probability: float
    accepted: bool
    """Whether all members were decided to be one."""
    nearest: tuple[str, float, int] | None
    """The likeliest partner of a column that stands alone: text, probability, number."""

    @property
    def places(self) -> list[int]:
        """The numbers of its columns."""
        return [member.place for member in self.members]

    @cached_property
    def key(self) -> str:
        """What forms call it; another one as soon as it has other members."""
        return f"{self.members[0].place}-{crc32(repr(self.places).encode()):x}"

    @property
    def usefulness(self) -> float:
        """How much a decision may change: doubt, times the columns that it concerns."""
        if self.accepted:
            return 0.0
        if self.nearest is not None:
            return 2 * _doubt(self.nearest[1])
        return sum(_doubt(member.probability) for member in self.members if member.probability is not None)

    @property
    def in_doubt(self) -> bool:
        """Whether a person should have a look."""
        weakest = min((each.probability for each in self.members if each.probability is not None), default=1.0)
        return not self.accepted and (weakest < SURE or self.nearest is not None)


@dataclass(frozen=True, kw_only=True)
class Question:
    """Two columns, and whether they mean the same."""

    first: Member
    second: Member
    probability: float
    reasons: tuple[Reason, ...]


def _doubt(probability: float) -> float:
    return min(probability, 1 - probability)


class Decisions:
    """A file of decisions: every change is on disk, whole, before it counts."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.decisions: tuple[Decision, ...] = ()
        self._lines: dict[frozenset[ColumnRef], dict[str, str | None]] = {}
        self.before: list[tuple[Decision, ...]] = []
        """What undoing goes back to, the last change last."""
        self._seen = -1
        self.refresh()

    def refresh(self) -> None:
        """Read the file again if someone else has written it."""
        seen = self.file.stat().st_mtime_ns if self.file.exists() else 0
        if seen and seen != self._seen:
            self.decisions = read_decisions(self.file)
            lines: list[dict[str, str | None]] = _read_lines(self.file)
            self._lines = {_find_pair(line): line for line in lines}
        self._seen = seen

    def change(self, decisions: Iterable[Decision]) -> None:
        """Put decisions in the place of those there are."""
        self.before.append(self.decisions)
        self._write(tuple(dict.fromkeys(decisions)))

    def undo(self) -> bool:
        """Go back one change; false where there is none."""
        if not self.before:
            return False
        self._write(self.before.pop())
        return True

    def _write(self, decisions: tuple[Decision, ...]) -> None:
        lines: dict[frozenset[ColumnRef], dict[str, str | None]] = {}
        for each in decisions:
            both = frozenset((each.first, each.second))
            cells = (*vars(each.first).values(), *vars(each.second).values(), "yes" if each.same else "no")
            lines[both] = {**self._lines.get(both, {}), **dict(zip(DECISION_COLUMNS, cells, strict=True))}
        # What nobody has decided on yet stays to be decided on.
        given = {frozenset((each.first, each.second)) for each in self.decisions}
        rest = {both: {**line, "same": None} for both, line in self._lines.items() if both not in lines}
        lines |= {both: line for both, line in rest.items() if both not in given or len(line) > len(DECISION_COLUMNS)}
        names = list(dict.fromkeys([*DECISION_COLUMNS, *(name for line in lines.values() for name in line)]))
        table = {name: pa.array([line.get(name) for line in lines.values()], pa.string()) for name in names}
        write_table(pa.table(table), self.file)
        self.decisions, self._lines = decisions, lines
        self._seen = self.file.stat().st_mtime_ns


def _read_lines(file: Path) -> list[dict[str, str | None]]:
    return [line for table in read_tables(file, keep_empty=True).values() for line in table.text.to_pylist()]


def _find_pair(line: Mapping[str, str | None]) -> frozenset[ColumnRef]:
    table, column, other_table, other_column, _ = (line.get(name) or "" for name in DECISION_COLUMNS)
    return frozenset((ColumnRef(table, column), ColumnRef(other_table, other_column)))


class Review:
    """A folder of tables under review; `load` makes it ready, and says meanwhile what it does.

    A change is on disk when it is made. Then the columns are matched again: `patience` is how many seconds that is
    waited for, and None waits as long as it takes.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        decisions: Path,
        *,
        labels: Path = Path("labels.csv"),
        model: Path | None = None,
        device: str | None = None,
        threshold: float = 0.5,
        patience: float | None = None,
    ) -> None:
        self.paths, self.threshold, self.patience = tuple(paths), threshold, patience
        self._seconds = 0.0
        self.status, self.failure, self.is_ready = "Reading the tables", "", False
        self.unreadable: list[str] = []
        self.lock = RLock()
        self._model, self._device, self._decisions_file, self._labels_file = model, device, decisions, labels
        self._skipped: set[frozenset[int]] = set()
        self.tasks = Tasks()
        self._worker = ThreadPoolExecutor(1)
        self._matched: tuple[Decision, ...] | None = None

    def load(self) -> None:
        """Read and match everything; what goes wrong is said in `failure`."""
        try:
            self.tables = read_tables(self.paths, ReadConfig(max_family=None), unreadable=self.unreadable)
            if len(self.tables) < 2:
                raise ConfigError(f"A review takes at least two tables, got {len(self.tables)}.")
            self.file = Decisions(self._decisions_file)
            self.status = "Loading the model"
            self.navi = Navi.from_pretrained(self._model, device=self._device)
            self.status = f"Reading the columns of {len(self.tables)} tables"
            self.profiles = self._profile()
            self.status = f"Comparing {len(self.profiles)} columns"
            scorer = PairScorer.load(self.navi.folder)
            self.matcher = ColumnMatcher(self.profiles, scorer, threshold=self.threshold)
            self.columns = [ColumnRef(*each) for each in zip(self.profiles.tables, self.profiles.headers, strict=True)]
            self.place = {column: k for k, column in enumerate(self.columns)}
            self.facts = {name: describe_columns(table) for name, table in self.tables.items()}
            self.explainer = Explainer(scorer, self.profiles, self.tables)
            self.rows = RowReview(self.navi, self.tables, self._labels_file, self.tasks)
            self._match()
            self.is_ready = True
        except (NaviError, OSError) as error:
            self.failure = str(error)
        except BaseException as error:
            self.failure = f"A fault of this program: {error!r}. The terminal shows where; please report it."
            raise

    def _profile(self) -> ColumnProfiles:
        """Return the profiles that `navi unify` compares."""
        limit = self.navi.read_config.max_family
        short = {
            name: table if limit is None else leave_out_members(table, limit) for name, table in self.tables.items()
        }
        return profile_tables(self.navi, short)

    def _match(self) -> None:
        """Match the columns with the decisions there are, unless that is done."""
        decisions = self.file.decisions
        if decisions is self._matched:
            return
        begun = monotonic()
        groups = self.matcher.group(decisions)
        cards = self._make_cards(groups)
        questions = self._rank_questions(cards)
        with self.lock:
            self._seconds = monotonic() - begun
            self.groups, self.cards, self._questions, self._matched = groups, cards, questions, decisions
            self._by_key = {card.key: card for card in cards}
            self._members = {member.place: member for card in cards for member in card.members}
            self.__dict__.pop("unified", None)

    def find_card(self, key: str) -> Card:
        """Return the card that a form is about; an error where it has other members by now."""
        if key not in self._by_key:
            raise ConfigError("this card has changed since the page was made. Look at it again")
        return self._by_key[key]

    def settle(self, patience: float | None = None) -> bool:
        """Have the columns matched with the decisions there are, and return whether that is done in time."""
        try:
            self._worker.submit(self._match).result(patience)
        except TimeoutError:
            return False
        return True

    def _match_soon(self) -> None:
        """Have the columns matched: at once, or, where that took long the last time, when the page has been shown."""
        if self.patience is None or self._seconds <= self.patience:
            self.settle(self.patience)
        else:
            self._worker.submit(sleep, PAUSE)
            self._worker.submit(self._match)

    @property
    def is_settled(self) -> bool:
        """Whether the cards are what the decisions make them."""
        return self._matched is self.file.decisions

    def _make_cards(self, groups: ColumnGroups) -> list[Card]:
        decided = {column for each in groups.decisions for column in (each.first, each.second)}
        joined = _join_columns(groups.decisions)
        cards = []
        for cluster, group in zip(groups.clusters, groups.members, strict=True):
            weights = np.nan_to_num(groups.weigh(group), nan=-1.0)
            compared = weights >= 0
            means = np.where(compared, weights, 0).sum(axis=1) / np.maximum(compared.sum(axis=1), 1)
            members = tuple(
                Member(
                    place=place,
                    column=column,
                    facts=self.facts[column.table][column.header],
                    probability=float(means[k]) if compared[k].any() else None,
                    decided=column in decided,
                    partner=group[int(weights[k].argmax())] if compared[k].any() else None,
                )
                for k, (place, column) in enumerate(zip(group, cluster.columns, strict=True))
            )
            near = None
            if len(group) == 1 and (other := groups.find_nearest(group[0])) is not None:
                near = (str(self.columns[other]), float(groups.weigh([group[0], other])[0, 1]), other)
            alone = len(group) == 1 and cluster.columns[0] in decided
            one = len(group) > 1 and len({joined.get(column, column) for column in cluster.columns}) == 1
            card = Card(
                name=cluster.name, members=members, probability=cluster.score, accepted=one or alone, nearest=near
            )
            cards.append(card)
        return cards

    def _rank_questions(self, cards: Iterable[Card]) -> list[tuple[float, int, int, float]]:
        """Return pairs of columns in doubt, those whose answer is worth most first: worth, both, probability."""
        pairs: list[tuple[int, int, float]] = []
        for card in cards:
            if card.nearest is not None:
                pairs.append((card.members[0].place, card.nearest[2], card.nearest[1]))
            elif len(card.members) > 1 and not card.accepted:
                ranked = sorted(card.members, key=lambda each: -(each.probability or 0))
                for each in ranked:  # a list's members are of one table, and no question
                    if each.probability is not None:
                        best_other = next(one for one in ranked if one.column.table != each.column.table)
                        pairs.append((each.place, best_other.place, each.probability))
        found = [
            (doubt * math.log2(2 + self._count_cells(first) + self._count_cells(second)), first, second, probability)
            for first, second, probability in pairs
            if (doubt := _doubt(probability)) >= 1 - SURE
        ]
        return sorted(found, key=lambda each: -each[0])

    def ask(self) -> Question | None:
        """Return the question whose answer is worth most; None where nothing is in doubt."""
        closed = self._skipped | {
            frozenset(self.place.get(each, -1) for each in _pair(decision)) for decision in self.file.decisions
        }
        for _, first, second, probability in self._questions:
            if frozenset((first, second)) not in closed:
                both = {"first": self._members[first], "second": self._members[second]}
                return Question(**both, probability=probability, reasons=self.explain(first, second))
        return None

    def _count_cells(self, place: int) -> int:
        table, header = vars(self.columns[place]).values()
        return round(self.facts[table][header].fill * self.tables[table].num_rows)

    def explain(self, first: int, second: int) -> tuple[Reason, ...]:
        """Return what speaks for and against two columns."""
        decided = [
            Reason(speaks="for" if each.same else "against", text="you decided so")
            for each in self.file.decisions
            if {each.first, each.second} == {self.columns[first], self.columns[second]}
        ]
        return (*decided, *self.explainer.explain(first, second))

    def change(self, act: Callable[[list[Decision]], Iterable[Decision]]) -> None:
        """Change the decisions: they are checked, written, and the columns matched again."""
        with self.lock:
            self.file.refresh()
            changed = tuple(dict.fromkeys(act(list(self.file.decisions))))
            self.matcher.check(changed)
            self.file.change(changed)
        self._match_soon()

    def undo(self) -> bool:
        """Take the last change back."""
        with self.lock:
            done = self.file.undo()
        self._match_soon()
        return done

    def skip(self, first: int, second: int) -> None:
        """Ask this question no more."""
        self._skipped.add(frozenset((first, second)))

    def join(self, places: Sequence[int]) -> None:
        """Decide that columns are one; what was said against that before is taken back."""
        chosen = [self.columns[place] for place in places]
        inside = set(chosen)

        def act(decisions: list[Decision]) -> list[Decision]:
            kept = [each for each in _free(decisions, chosen) if each.same or not _pair(each) <= inside]
            return [*kept, *(Decision(first=chosen[0], second=each, same=True) for each in chosen[1:])]

        self.change(act)

    def separate(self, place: int, others: Sequence[int]) -> None:
        """Decide that a column is none of some others."""
        column = self.columns[place]
        rest = [self.columns[other] for other in others if other != place]
        self.change(lambda decisions: _part(decisions, column, rest))

    def move(self, place: int, old: Sequence[int], new: Sequence[int]) -> None:
        """Decide that a column is one with some others, and not with those it is with."""
        column = self.columns[place]
        target = [self.columns[each] for each in new if each != place]
        rest = [self.columns[each] for each in old if each != place and each not in new]

        def act(decisions: list[Decision]) -> list[Decision]:
            parted = _free(_part(decisions, column, rest), [column])
            inside = {frozenset((column, each)) for each in target}
            kept = [each for each in parted if _pair(each) not in inside]
            return [*kept, *(Decision(first=column, second=each, same=True) for each in target)]

        self.change(act)

    def rename(self, places: Sequence[int], name: str) -> None:
        """Give a cluster a name."""
        members = {self.columns[place] for place in places}
        name = " ".join(name.split())
        if not name:
            raise ConfigError("A name has at least one character.")
        taken = [card for card in self.cards if card.name == name and card.members[0].place not in places]
        if taken:
            raise ConfigError(f"Another column is called '{name}' already. Merge both, or choose another name.")
        given = Decision(first=self.columns[places[0]], second=ColumnRef("", name), same=True)
        self.change(
            lambda decisions: [*(each for each in decisions if not (_is_name(each) and each.first in members)), given]
        )

    def isolate(self, place: int) -> None:
        """Decide that a column is not to be unified with any."""
        column = self.columns[place]
        alone = Decision(first=column, second=NOTHING, same=False)
        self.change(
            lambda decisions: [
                *(each for each in decisions if not (each.same and column in _pair(each)) or _is_name(each)),
                alone,
            ]
        )

    def start_filling(self, name: str) -> Fills[Table] | str | None:
        """Return the fills of a table's empty cells; None while they are being found, and a text if that failed."""
        return self.tasks.start(("fill", name), lambda: self.navi.impute(self.tables[name]))

    @property
    def matches(self) -> Matches:
        """The clusters; pairs are not listed."""
        return Matches(clusters=self.groups.clusters, pairs=(), decisions=self.groups.decisions)

    @cached_property
    def unified(self) -> Unified:
        """What `navi unify --decisions` gives."""
        spec, doubts = plan_unify(self.tables, self.matches)
        found = unify(self.tables, spec)
        return Unified(table=found.table, spec=found.spec, notes=(*doubts, *found.notes))


def _pair(decision: Decision) -> frozenset[ColumnRef]:
    return frozenset((decision.first, decision.second))


def _is_name(decision: Decision) -> bool:
    return decision.same and not decision.second.table


def _free(decisions: Iterable[Decision], columns: Iterable[ColumnRef]) -> list[Decision]:
    """Return decisions without those that say that one of some columns stands alone."""
    wanted = set(columns)
    return [each for each in decisions if each.second != NOTHING or each.first not in wanted]


def _part(decisions: Iterable[Decision], column: ColumnRef, rest: Sequence[ColumnRef]) -> list[Decision]:
    """Return decisions in which a column is none of the rest; what joined them, over others too, is taken back."""
    joined = {column, *rest}
    kept = [each for each in decisions if not (each.same and column in _pair(each) and _pair(each) <= joined)]
    while (group := _join_columns(kept)) and any(group.get(column, column) == group.get(each, each) for each in rest):
        kept.remove(next(each for each in kept if each.same and column in _pair(each) and not _is_name(each)))
    return [*kept, *(Decision(first=column, second=each, same=False) for each in rest)]


def _join_columns(decisions: Iterable[Decision]) -> dict[ColumnRef, ColumnRef]:
    """Return the head of the group of each column that was decided to be another."""
    head: dict[ColumnRef, ColumnRef] = {}

    def find(column: ColumnRef) -> ColumnRef:
        while head.setdefault(column, column) != column:
            column = head[column]
        return column

    for each in decisions:
        if each.same and each.second.table:
            head[find(each.second)] = find(each.first)
    return {column: find(column) for column in list(head)}


def describe_columns(table: Table) -> dict[str, ColumnFacts]:
    """Return each column of a table as a person would look at it."""
    config, counted = PrepareConfig(), {}
    for header in table.headers:
        found = pc.value_counts(table.text[header].drop_null()).to_pylist()
        counted[header] = sorted(found, key=lambda each: -each["counts"])
    counts = {header: np.array([each["counts"] for each in found], np.int64) for header, found in counted.items()}
    column = np.repeat(np.arange(len(counts)), [len(each) for each in counts.values()])
    entropy = measure_entropy(column, np.concatenate([*counts.values()]), len(counts), config.normalise)
    roles = assign_roles(entropy, config.theta_low, config.theta_high)
    described = {}
    for header, role in zip(table.headers, roles.tolist(), strict=True):
        values, num_cells = [each["values"] for each in counted[header]], int(counts[header].sum())
        bars, text = _draw_bars(values, counts[header])
        described[header] = ColumnFacts(
            header=header,
            fill=num_cells / max(table.num_rows, 1),
            distinct=len(values),
            role=ROLES[role] if num_cells > 1 else "",
            examples=tuple(value[:MAX_EXAMPLE] for value in values[:NUM_EXAMPLES]),
            bars=bars,
            bars_text=text,
            trouble="never filled" if not values else "always the same" if len(values) == 1 < num_cells else "",
        )
    return described


def _draw_bars(values: Sequence[str], counts: NDArray[np.int64]) -> tuple[tuple[float, ...], str]:
    """Return a column's distribution: a histogram where most values are plain numbers, else its frequent values."""
    numbers, weights = [], []
    for value, count in zip(values, counts.tolist(), strict=True):
        try:
            number = float(value)
        except ValueError:
            continue
        if math.isfinite(number) and abs(number) < 1e15:
            numbers.append(number)
            weights.append(count)
    if len(numbers) > 3 and len(numbers) >= 0.9 * len(values):
        heights, edges = np.histogram(numbers, bins=min(NUM_BARS, len(numbers)), weights=weights)
        return tuple((heights / heights.max()).tolist()), f"{edges[0]:.6g} to {edges[-1]:.6g}"
    if not len(counts):
        return (), ""
    top = counts[:NUM_BARS]
    text = "all different" if int(top[0]) == 1 else f"at most {int(top[0]):,} times"
    return tuple((top / top.max()).tolist()), text
