"""What a person looks at and decides on: the columns of a folder's tables in clusters, and pairs of their rows."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import RLock
from zlib import crc32

import numpy as np

from navi.columns import PairScorer
from navi.errors import ConfigError
from navi.model.runner import Progress
from navi.server.decisions import NOTHING, Decisions, Labels, free, is_name, join_columns, make_key, pair, part
from navi.server.facts import ColumnFacts, describe_columns
from navi.server.jobs import Tasks
from navi.settings import MATCH_THRESHOLD
from navi.tables import ReadConfig, Table, read_tables
from navi.verbs import Navi
from navi.verbs.column_groups import ColumnGroups, ColumnMatcher, ColumnRef, Decision, Reason
from navi.verbs.explain import Explainer
from navi.verbs.impute import Fills
from navi.verbs.link import RowPair, RowRef
from navi.verbs.loading import choose_precision
from navi.verbs.match import Matches, profile_tables
from navi.verbs.unify import Unified, leave_out_members, plan_unify, unify

SURE = 0.8
"""Probability from which a member of a cluster is not in doubt."""
LINKED = 0.05
"""Probability from which a pair of rows is shown: those below the line are worth a look, too."""
STRONGLY = " (strong)"


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


class Review:
    """A folder of tables under review, read and matched when it is made; `report` takes what is being done meanwhile.

    A change is on disk when it is made. Then the columns are matched again, in a thread of their own: `patience` is how
    many seconds that is waited for, and None waits as long as it takes.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        decisions: Path,
        *,
        labels: Path = Path("labels.csv"),
        model: Path | None = None,
        device: str | None = None,
        threshold: float = MATCH_THRESHOLD,
        patience: float | None = None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.paths, self.patience = tuple(paths), patience
        self.unreadable: list[str] = []
        self.lock, self.tasks = RLock(), Tasks()
        self._model, self._device = model, device
        self._opened: dict[str | None, Navi] = {}
        self._skipped: set[frozenset[int]] = set()
        self._worker = ThreadPoolExecutor(1)
        self._matched: tuple[Decision, ...] | None = None
        report("Reading the tables")
        self.tables = read_tables(self.paths, ReadConfig(max_family=None), unreadable=self.unreadable)
        if len(self.tables) < 2:
            raise ConfigError(f"A review takes at least two tables, got {len(self.tables)}.")
        self.file, self.labels = Decisions(decisions), Labels(labels)
        report("Loading the model")
        self.navi = self.open_model(0)
        report(f"Reading the columns of {len(self.tables)} tables")
        limit = self.navi.read_config.max_family  # `navi unify` compares as many members of a list
        self.profiles = profile_tables(
            self.navi,
            {name: each if limit is None else leave_out_members(each, limit) for name, each in self.tables.items()},
        )
        report(f"Comparing {len(self.profiles)} columns")
        scorer = PairScorer.load(self.navi.folder)
        self.matcher = ColumnMatcher(self.profiles, scorer, threshold=threshold)
        self.columns = [ColumnRef(*each) for each in zip(self.profiles.tables, self.profiles.headers, strict=True)]
        self.place = {column: k for k, column in enumerate(self.columns)}
        self.facts = {name: describe_columns(table) for name, table in self.tables.items()}
        self.explainer = Explainer(scorer, self.profiles, self.tables)
        self._match()
        gc.freeze()  # what is there by now stays: no decision waits for the collector to look through it

    def _match(self) -> None:
        """Match the columns with the decisions there are, unless that is done."""
        decisions = self.file.decisions
        if decisions is self._matched:
            return
        groups = self.matcher.group(decisions)
        cards = self._make_cards(groups)
        questions = self._rank_questions(cards)
        with self.lock:
            self.groups, self.cards, self._questions, self._matched = groups, cards, questions, decisions
            self._by_key = {card.key: card for card in cards}
            self._members = {member.place: member for card in cards for member in card.members}
            self.__dict__.pop("unified", None)

    def find_card(self, key: str) -> Card:
        """Return the card that a form is about; an error where it has other members by now."""
        if key not in self._by_key:
            raise ConfigError("this card has changed since the page was made. Look at it again")
        return self._by_key[key]

    def settle(self, patience: float | None = None) -> None:
        """Have the columns matched with the decisions there are, and wait for that, for some seconds at most."""
        with suppress(TimeoutError):
            self._worker.submit(self._match).result(patience)

    @property
    def is_settled(self) -> bool:
        """Whether the cards are what the decisions make them."""
        return self._matched is self.file.decisions

    def _make_cards(self, groups: ColumnGroups) -> list[Card]:
        decided = {column for each in groups.decisions for column in (each.first, each.second)}
        joined = join_columns(groups.decisions)
        cards = []
        for cluster, group in zip(groups.clusters, groups.members, strict=True):
            weights = groups.weigh(group)
            compared = (~np.isnan(weights)).sum(axis=1)
            means = (np.nansum(weights, axis=1) / np.maximum(compared, 1)).tolist()
            partners = np.nan_to_num(weights, nan=-1.0).argmax(axis=1).tolist()
            members = tuple(
                Member(
                    place=place,
                    column=column,
                    facts=self.facts[column.table][column.header],
                    probability=mean if number else None,
                    decided=column in decided,
                    partner=group[partner] if number else None,
                )
                for place, column, mean, number, partner in zip(
                    group, cluster.columns, means, compared.tolist(), partners, strict=True
                )
            )
            alone, near = len(group) == 1, None
            if alone and (other := groups.find_nearest(group[0])) is not None:
                near = (str(self.columns[other]), float(groups.weigh([group[0], other])[0, 1]), other)
            heads = {joined.get(column, column) for column in cluster.columns}
            accepted = cluster.columns[0] in decided if alone else len(heads) == 1
            cards.append(
                Card(name=cluster.name, members=members, probability=cluster.score, accepted=accepted, nearest=near)
            )
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
            frozenset(self.place.get(each, -1) for each in pair(decision)) for decision in self.file.decisions
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
        return (*decided, *_say_once(self.explainer.explain(first, second)))

    def change(self, act: Callable[[list[Decision]], Iterable[Decision]]) -> None:
        """Change the decisions: they are checked, written, and the columns matched again."""
        with self.lock:
            self.file.refresh()
            changed = tuple(dict.fromkeys(act(list(self.file.decisions))))
            self.matcher.check(changed)
            self.file.change(changed)
        self.settle(self.patience)

    def undo(self) -> bool:
        """Take the last change back."""
        with self.lock:
            done = self.file.undo()
        self.settle(self.patience)
        return done

    def skip(self, first: int, second: int) -> None:
        """Ask this question no more."""
        self._skipped.add(frozenset((first, second)))

    def join(self, places: Sequence[int]) -> None:
        """Decide that columns are one; what was said against that before is taken back."""
        chosen = [self.columns[place] for place in places]
        inside = set(chosen)

        def act(decisions: list[Decision]) -> list[Decision]:
            kept = [each for each in free(decisions, chosen) if each.same or not pair(each) <= inside]
            return [*kept, *(Decision(first=chosen[0], second=each, same=True) for each in chosen[1:])]

        self.change(act)

    def separate(self, place: int, others: Sequence[int]) -> None:
        """Decide that a column is none of some others."""
        column = self.columns[place]
        rest = [self.columns[other] for other in others if other != place]
        self.change(lambda decisions: part(decisions, column, rest))

    def move(self, place: int, old: Sequence[int], new: Sequence[int]) -> None:
        """Decide that a column is one with some others, and not with those it is with."""
        column = self.columns[place]
        target = [self.columns[each] for each in new if each != place]
        rest = [self.columns[each] for each in old if each != place and each not in new]

        def act(decisions: list[Decision]) -> list[Decision]:
            parted = free(part(decisions, column, rest), [column])
            inside = {frozenset((column, each)) for each in target}
            kept = [each for each in parted if pair(each) not in inside]
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
            lambda decisions: [*(each for each in decisions if not (is_name(each) and each.first in members)), given]
        )

    def isolate(self, place: int) -> None:
        """Decide that a column is not to be unified with any."""
        column = self.columns[place]
        alone = Decision(first=column, second=NOTHING, same=False)
        self.change(
            lambda decisions: [
                *(each for each in decisions if not (each.same and column in pair(each)) or is_name(each)),
                alone,
            ]
        )

    def start_filling(self, name: str) -> Fills[Table] | str | None:
        """Return the fills of a table's empty cells; None while they are being found, and a text if that failed."""
        # All are found: the page shows those that are as sure as its reader wants.
        table = self.tables[name]
        return self.tasks.start(("fill", name), lambda tell: self.navi.impute(table, confidence=0.0, progress=tell))

    def start_linking(self, left: str, right: str) -> tuple[RowPair, ...] | str | None:
        """Return the pairs of rows of two tables, None while they are sought, and a text if that failed."""
        tables = {name: self.tables[name] for name in (left, right)}
        labels = self.labels.list_given({left, right}) or None
        num_rows = sum(table.num_rows for table in tables.values())

        def link(tell: Progress) -> tuple[RowPair, ...]:
            return tuple(self.open_model(num_rows).link(tables, threshold=LINKED, labels=labels, progress=tell))

        return self.tasks.start(("link", left, right), link)

    def open_model(self, num_rows: int) -> Navi:
        """Return the model to read so many rows with, in the arithmetic of `navi link`."""
        precision = choose_precision(self._device, num_rows)
        if precision not in self._opened:
            self._opened[precision] = Navi.from_pretrained(self._model, device=self._device, precision=precision)
        return self._opened[precision]

    def list_open(self, pairs: Iterable[RowPair]) -> list[RowPair]:
        """Return the pairs of rows without a label, the most doubtful first."""
        open_pairs = (each for each in pairs if make_key(each) not in self.labels.answers)
        return sorted(open_pairs, key=lambda each: abs(each.probability - 0.5))

    def read_row(self, row: RowRef) -> dict[str, str]:
        """Return the cells of a row."""
        table = self.tables[row.table]
        place = int((table.row_number == row.row).argmax())
        cells: dict[str, str | None] = table.text.slice(place, 1).to_pylist()[0]
        return {header: cell for header, cell in cells.items() if cell}

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


def _say_once(reasons: Iterable[Reason]) -> Iterator[Reason]:
    """Yield reasons; those that would show the same values as one before show none."""
    shown = set()
    for reason in reasons:
        text, strong = reason.text.removesuffix(STRONGLY), reason.text.endswith(STRONGLY)
        said, _, values = text.partition(": ")
        yield replace(reason, text=said + STRONGLY * strong) if values in shown else reason
        shown.add(values)
