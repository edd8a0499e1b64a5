"""What each constant that shapes an answer is worth: the verb it belongs to, measured with it and without.

    python benchmarks/constants.py CORPORA TABLES [--only verbs.name verbs.link.UNKNOWN] [--record]

CORPORA has the prepared corpora `movie` and `product`, TABLES their folders of tables and the gold, `*_concepts.csv`.
Only validation tables are measured; some training tables are known to naming, and linking has the pairs of
benchmarks/linked_pairs.py without an unseen table. A constant is set to what takes it away where there is such a value,
else to its half and its double. One line a setting: the figure that loses most by it, and the one that gains most; all
are such that more is better. Texts and rows are read by the model once. Left out: what only training uses
(columns/perturb.py, views, roles), what a page shows or an explanation says, limits on files, memory and time.
"""

# needs: the film and product corpora, and their gold
from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import linked_pairs
import numpy as np
from concepts import list_frames, read_concepts
from imputation import KINDS, Outcome, draw_gaps
from linking import compare_set
from matching import Measure, NaviScores, measure_navi
from records import add_record, calibration_error
from schema_tasks import read_corpus_task

from navi.columns import Background, PairScorer, is_useless, profile_columns, texts
from navi.corpus import Corpus, canonicalise
from navi.corpus.tokens import TextTokenizer
from navi.training.export import survey_values
from navi.verbs import Navi, link, name, row_similarity
from navi.verbs.candidate_values import CandidateFinder
from navi.verbs.column_groups import ColumnMatcher
from navi.verbs.embed import EmbedConfig, embed_arrays
from navi.verbs.row_comparison import ComparedRows
from navi.verbs.row_similarity import WordIndex, list_words
from navi.verbs.search import WEIGHT_ROWS

TRIALS = """
impute verbs.candidate_values TRAINING_CELLS=0,half,twice UNSEEN_CELLS=0,half,twice LEAST_EXCESS=none,half,twice
impute verbs.candidate_values PRIOR_CELLS=1,half OPTIMISM=0
link verbs.row_scorer CLEAR=0,half,twice FEW=1,half,twice MAX_CLEAR=half,none
link verbs.row_scorer MAX_RIVALS=2000,none PRIOR_SHARE=0,1 SEEMING_NONE=0,twice SEEMING_ALL=0.7,1
link verbs.row_scorer MAX_LIFT=0,half,twice USUAL_WRONG=half,twice USUAL_RIGHT=half,twice
link,learn verbs.row_scorer RIDGE=0,half,twice
within verbs.row_scorer SAME_TABLE=0,half,twice
link verbs.link UNKNOWN=0,half,twice
learn verbs.link CERTAIN=half
link verbs.row_comparison MAX_RARITY=half,twice MAX_TEXT=half,none _SHORTEST_CODE=1,twice
search verbs.row_similarity LEAST_VARIANCE=0,0.1 WORDS_WORTH=1,half,twice USUAL_WEIGHT=0,twice USUAL_PAIRS=0,1e9
impute verbs.cell_formats ENOUGH=0.5,1 MAX_LEARNED=50,none MAX_UNITS=none MAX_DIGITS=none
name verbs.name HIDDEN_SHARE=half,twice,1 MODEL_WEIGHT=0,half,twice TAKEN_COST=0,half,twice STEEPNESS=1
match settings MATCH_THRESHOLD=0.5,half,twice
match verbs.column_groups LIMIT=half,none
match,name columns.features SMOOTHING=1e-3,half,twice MAX_GRID=64,none FACT_GROUPS.kind=half,twice
match,name columns.features FACT_GROUPS.shape=half,twice FACT_GROUPS.length=half,twice FACT_GROUPS.lists=half,twice
match,name columns.features FACT_GROUPS.diversity=half,twice
match,name columns.profiles BAGS.items=half,none BAGS.frequent=half,none BAGS.words=half,none BAGS.grams=half,none
match,name columns.profiles BAGS.header_words=4,none BAGS.header_grams=8,none MAX_READ=half,twice MAX_CELLS=half,none
match,name columns.profiles _HEAD=half,none _GRAM_HEAD=half,none _LONGEST_ITEM=half,none LEVELS=half
match,name columns.profiles _FIRST_YEAR=-none _LAST_YEAR=none
match,name columns.texts MAX_VALUES=half,twice MAX_CHARACTERS=half,twice MAX_TOKENS=half,twice
match,name columns.texts MAX_READ_VALUES=half,twice
free verbs.name LIKELIHOOD_WEIGHT=0,1 FREE_SHARE=1e-9,half,twice MAX_FREE_WORDS=0,1,2 FREE_TOKENS=1,twice
free verbs.name LEAST_LIKELY=-none,half,twice
free columns.states FEW_CELLS=0
"""
"""What is measured, the module, and what its constants are set to; `none` is a limit that nothing reaches."""
PROFILED = ("columns.profiles", "columns.texts", "columns.features", "columns.states")
BIG = 1 << 30
STATE_ROWS, FREE_TABLES = 8, 5
"""Rows that the model reads of a table with hidden headers, and tables of a corpus where it is asked for them."""
SHORT, LEAST_GOLD, LABELS, ASKED = 40, 40, 50, 20
"""Rows of a short table; right pairs of linked tables, at least; likely ones that are labelled; rows searched for."""
SPLIT = Path(__file__).parents[1] / "paper" / "split.json"
Figures = dict[str, float]
Measured = Callable[[], Figures]


class Columns:
    """Validation tables of a corpus, and training tables whose headers are known."""

    def __init__(self, navi: Navi, folder: Path, options: argparse.Namespace) -> None:
        corpus, gold = Corpus.open(folder), options.tables / f"{folder.name}_concepts.csv"
        self.navi, self.label, self.meanings = navi, folder.name, dict[str, set[str]]()
        unseen = {corpus.tables[table] for table in corpus.arrays.row_table[corpus.rows_of("unseen")]}
        self.concepts = {each: concept for each, concept in read_concepts(gold).items() if each[0] not in unseen}
        for (_, header), concept in self.concepts.items():
            self.meanings.setdefault(canonicalise(header), set()).add(concept)
        self.task = read_corpus_task(corpus, gold, "validation_tables", options.rows, options.num)
        known = dict(list_frames(corpus, "train", options.rows, 2 * options.num))
        self.encoded = [navi.encode(frames) for frames in (self.task.tables, known)]
        self.alone = {table: navi.encode({table: rows}) for table, rows in self.task.tables.items()}
        self.namers = {table: name._Namer(navi, each, STATE_ROWS) for table, each in self.alone.items()}
        self.refresh()

    def refresh(self) -> None:
        """Profile all columns again, and score those to be named with those that are known."""
        navi, scorer = self.navi, PairScorer.load(self.navi.folder)
        self.profiles, known = (profile_columns(navi.runner, TextTokenizer(navi.tokenizer), x) for x in self.encoded)
        background, headers = Background([known]), name.KnownHeaders(known)
        for table, namer in self.namers.items():
            own = self.profiles.take(np.flatnonzero(np.array(self.profiles.tables) == table))
            values, total = (score(own, known, background) for score in (scorer.score_values, scorer.score_total))
            places = {header: place for place, header in enumerate(own.headers)}
            namer._profiles, namer._known, namer._background, namer._headers = own, known, background, headers
            namer._scorer = SimpleNamespace(
                score_values=lambda asked, *_, of=values, at=places: of[[at[each] for each in asked.headers]],
                score_total=lambda asked, *_, of=total, at=places: of[[at[each] for each in asked.headers]],
            )
            arrays = self.alone[table].arrays
            namer._sample = arrays.take_rows(
                name.choose_rows(self.alone[table], np.arange(arrays.num_rows), STATE_ROWS)
            )

    def match(self) -> Figures:
        """Return how well columns are matched, pair by pair and in clusters."""
        measure = Measure()
        measure_navi(self.task, GroupedScores(self.navi, self.profiles, "both"), measure)
        found, error = measure.figures(), measure.odds_figures()["calibration error"]
        found = {"F1": found.get("own F1", 0.0), "clusters F1": found.get("clusters F1", 0.0), "1 - error": 1 - error}
        return {f"matching {self.label}, {each}": figure for each, figure in found.items()}

    def name(self, *, free: bool = False) -> Figures:
        """Return how well columns are named: a header is right if some table has it for the column's concept."""
        right, sure = [], []
        for table, namer in list(self.namers.items())[: FREE_TABLES if free else None]:
            headers = namer._profiles.headers
            asked = np.array([(table, each) in self.concepts and not is_useless(each) for each in headers])
            for hidden in name.deal_columns(headers, asked):
                for each in namer.name(hidden, asked, 5, free=free).values():
                    meanings = [self.meanings.get(canonicalise(one.header), ()) for one in each.candidates]
                    right.append([self.concepts[table, each.column] in meaning for meaning in meanings])
                    sure.append(each.candidates[0].probability)
        first, among = (np.array([any(each[:top]) for each in right]) for top in (1, 5))
        found = {"top 1": first.mean(), "top 5": among.mean()}
        found["1 - error"] = 1 - calibration_error(np.array(sure), first)
        return {f"naming {self.label}, {'free, ' if free else ''}{each}": float(at) for each, at in found.items()}


class GroupedScores(NaviScores):
    """Scores whose clusters are found without a word on any pair."""

    def cluster(self, names: set[str]) -> dict[tuple[str, str], int]:
        own, threshold = self._take(names), import_module("navi.settings").MATCH_THRESHOLD
        labels = ColumnMatcher(own, self._scorer, threshold=threshold).group().labels
        return dict(zip(zip(own.tables, own.headers, strict=True), labels.tolist(), strict=True))


def prepare_cells(navi: Navi, folders: list[Path], options: argparse.Namespace) -> Measured:
    """Return what measures imputation: of cells, of groups, and in short tables with the values of training tables."""
    drawn = []
    for corpus in map(Corpus.open, folders):
        domain = survey_values(corpus)
        for _, rows in list_frames(corpus, "validation_tables", options.rows, options.num):
            for kind, part in (*((kind, rows) for kind in KINDS), ("trained", rows[:SHORT])):
                encoded, how = navi.encode(part), "groups" if kind == "groups" else "cells"
                gaps = draw_gaps(encoded.arrays, how, np.random.default_rng(0))
                drawn += [(kind, encoded, domain if kind == "trained" else None, *each) for each in gaps]

    def measure() -> Figures:
        outcomes: dict[str, Outcome] = {}
        for kind, encoded, domain, hidden, gaps in drawn:
            for found in CandidateFinder(encoded, domain, hidden=hidden).find(gaps):
                outcomes.setdefault(kind, Outcome()).add(encoded, gaps, found)
        figures = {kind: each.measure() for kind, each in outcomes.items()}
        found = {f"imputing {kind}, found": each["exact"] for kind, each in figures.items()}
        found |= {f"imputing {kind}, right at 0.8": each["right at 0.8"] for kind, each in figures.items()}
        return found | {f"imputing {kind}, 1 - error": 1 - each["ece"] for kind, each in figures.items()}

    return measure


class LinkedRows:
    """Pairs of tables whose rows are linked; the columns are aligned once, and with `within` rows of one table too."""

    def __init__(self, navi: Navi, sets: list[linked_pairs.Set], *, within: bool = False) -> None:
        self.within, self.sets = within, [(data, *compare_set(navi, data)) for data in sets]
        self.refresh()

    def refresh(self) -> None:
        """Compare all rows again; the same pairs are compared once."""
        self.held = []
        for data, tables, before in self.sets:
            rows = ComparedRows(tables, [each.alignment for each in before.columns], within=self.within)
            pairs, known, compare = rows.find_candidates(10), dict[bytes, Any](), rows.compare
            rows.compare = lambda each, known=known, compare=compare: (  # type: ignore[method-assign]
                known.get(each.tobytes()) or known.setdefault(each.tobytes(), compare(each))
            )
            same = np.array([(one, other - len(data.left)) in data.gold for one, other in pairs.tolist()])
            self.held.append((data, rows, pairs, same))

    def link(self) -> Figures:
        """Return how well rows are linked, one to one by kind of pairs of tables, and one to several."""
        found: dict[str, list[float]] = {}
        for data, rows, pairs, same in self.held:
            logit = link.score_pairs(rows, pairs)[0]
            chosen, several = link.assign_rows(rows, pairs, logit), np.flatnonzero(logit >= 0)
            several = several[link.cluster_rows(pairs, logit, several) >= 0]
            if self.within:
                figures = {"within tables too, F1": measure_f1(several, same, data)}
            elif data.gold:
                sure, kind = 1 / (1 + np.exp(-logit.astype(np.float64))), data.name.partition(":")[0]
                error = calibration_error(sure[sure >= 0.1], same[sure >= 0.1]) if (sure >= 0.1).any() else 0.0
                figures = {f"{re.sub('imdb|tmdb', 'shared', kind)}, F1": measure_f1(chosen, same, data)}
                figures |= {"one to several, F1": measure_f1(several, same, data), "1 - error": 1 - error}
            else:
                figures = {"1 - wrong links a row": 1 - len(chosen) / len(data.left)}
            for each, figure in figures.items():
                found.setdefault(f"linking {each}", []).append(figure)
        return {each: float(np.mean(some)) for each, some in found.items()}

    def learn(self) -> Figures:
        """Return how well rows are linked with labels of some likely pairs, which are left out."""
        found = []
        for data, rows, pairs, same in (each for each in self.held if len(each[0].gold) > 2 * LABELS):
            likely = np.flatnonzero(link.score_pairs(rows, pairs)[0] > -3)
            drawn = np.sort(np.random.default_rng(0).permutation(likely)[:LABELS])
            logit = link.score_pairs(rows, pairs, np.column_stack([pairs[drawn], same[drawn]]))[0]
            chosen = np.setdiff1d(link.assign_rows(rows, pairs, logit), drawn)
            found.append(2 * same[chosen].sum() / max(len(chosen) + len(data.gold) - same[drawn].sum(), 1))
        return {"linking with labels, F1": float(np.mean(found))}


def measure_f1(chosen: np.ndarray, same: np.ndarray, data: linked_pairs.Set) -> float:
    return 2 * same[chosen].sum() / (len(chosen) + len(data.gold))


def prepare_search(navi: Navi, sets: list[linked_pairs.Set]) -> Measured:
    """Return what measures how high the right row of another table stands, as search weighs vectors and words."""
    held = []
    for data in sets:
        gold = np.array(sorted(data.gold)[:ASKED])
        others = np.setdiff1d(np.arange(len(data.right)), gold[:, 1])[: 4 * ASKED]
        frames = data.left.iloc[gold[:, 0]], data.right.iloc[[*gold[:, 1], *others]]
        encoded = [navi.encode(frame.replace("", None)) for frame in frames]
        if all(each.arrays.num_rows == len(frame) for each, frame in zip(encoded, frames, strict=True)):
            config = EmbedConfig(pooling="values")
            held.append([(embed_arrays(navi, x.arrays, "rows", config), *list_words(x)) for x in encoded])

    def measure() -> Figures:
        ranks: list[int] = []
        for (asked, asked_rows, asked_words), (sought, rows, words) in held:
            space, size = row_similarity.Whitening.fit(sought), len(sought)
            index, vectors = WordIndex.build(rows.astype(np.int32), words, size), space.transform(sought)
            some = np.arange(min(size, WEIGHT_ROWS))
            own = np.stack([index.measure_overlap(words[rows == row]) for row in some])
            weight = row_similarity.weigh_similarity(np.clip(vectors[some] @ vectors.T, 0, 1), own)
            overlap = np.stack([index.measure_overlap(asked_words[asked_rows == row]) for row in range(len(asked))])
            score = weight * np.clip(space.transform(asked) @ vectors.T, 0, 1) + (1 - weight) * overlap
            ranks += (1 + (score > np.diagonal(score)[:, None]).sum(axis=1)).tolist()
        return {"searching, MRR": float(np.mean(1 / np.array(ranks)))}

    return measure


def remember_model() -> None:
    """Have the model read each text, and each table with hidden headers, once."""
    embed, average = texts.embed_texts, name.average_columns
    vectors: dict[tuple[str, int], np.ndarray] = {}
    states: dict[tuple[int, bytes, bytes, int], np.ndarray] = {}

    def embed_texts(runner: Any, tokenizer: Any, wanted: list[str]) -> np.ndarray:
        new = [each for each in dict.fromkeys(wanted) if (each, texts.MAX_TOKENS) not in vectors]
        found = embed(runner, tokenizer, new) if new else []
        vectors.update(zip(((each, texts.MAX_TOKENS) for each in new), found, strict=True))
        return np.stack([vectors[each, texts.MAX_TOKENS] for each in wanted])

    def average_columns(runner: Any, arrays: Any, hidden: np.ndarray, *, num_masks: int = 1) -> np.ndarray:
        key = arrays.num_rows, arrays.row_segments.tobytes(), hidden.tobytes(), num_masks
        if key not in states:
            states[key] = average(runner, arrays, hidden, num_masks=num_masks)
        return states[key]

    texts.embed_texts, name.average_columns = embed_texts, average_columns


def change(module: str, constant: str, setting: str) -> tuple[str, Callable[[], None]]:
    """Set a constant wherever it is known; return its value and what it is set to, and what takes that back."""
    owner, (attribute, _, key) = import_module(f"navi.{module}"), constant.partition(".")
    whole = getattr(owner, attribute)
    held = whole[key] if key else whole
    value = held[0] if isinstance(held, tuple) else held
    if isinstance(value, np.ndarray):
        new = value[::2] if setting == "half" else np.array([float(setting)])
    elif setting in ("half", "twice"):
        new = type(value)(value * 2 if setting == "twice" else value / 2)
    else:
        new = type(value)(float(setting.replace("none", str(BIG))))
    if key:
        whole[key] = (new, *held[1:]) if isinstance(held, tuple) else new
    named = [] if key else [each for each in list(sys.modules.values()) if vars(each).get(attribute) is whole]
    for each in named:
        setattr(each, attribute, new)

    def restore() -> None:
        if key:
            whole[key] = held
        for each in named:
            setattr(each, attribute, whole)

    return " → ".join(map(show, (value, new))), restore


def draw_sets(options: argparse.Namespace) -> list[linked_pairs.Set]:
    """Return some pairs of tables to link, of each kind as many, without an unseen table."""
    unseen = set(json.loads(SPLIT.read_text(encoding="utf-8"))["movie"]["unseen"])
    drawn: dict[str, list[linked_pairs.Set]] = {}
    linked_pairs.MAX_ROWS = options.linked
    for data in linked_pairs.make_sets(options.tables / "movie"):
        if not unseen & set(data.name.split()) and (not data.gold or len(data.gold) >= LEAST_GOLD):
            drawn.setdefault(data.name.partition(":")[0], []).append(data)
    return [data for some in drawn.values() for data in some[: options.sets]]


def show(value: Any) -> str:
    if np.ndim(value):
        return f"{np.size(value)} numbers"
    return f"{value:g}" if abs(value) < BIG else "none"


def merge(parts: Iterable[Figures]) -> Figures:
    return {each: figure for part in parts for each, figure in part.items()}


def main(options: argparse.Namespace) -> None:
    navi, folders = Navi.from_pretrained(device="cpu"), [options.corpora / each for each in options.names]
    remember_model()
    columns = cache(lambda: [Columns(navi, each, options) for each in folders])
    sets = cache(lambda: draw_sets(options))
    some = cache(lambda: [each for each in sets() if each.gold and "all shared" not in each.name])
    rows, within = cache(lambda: LinkedRows(navi, sets())), cache(lambda: LinkedRows(navi, some(), within=True))
    cells, search = cache(lambda: prepare_cells(navi, folders, options)), cache(lambda: prepare_search(navi, some()))
    verbs: dict[str, Measured] = {
        "match": lambda: merge(each.match() for each in columns()),
        "name": lambda: merge(each.name() for each in columns()),
        "free": lambda: merge(each.name(free=True) for each in columns()),
        **{"impute": lambda: cells()(), "link": lambda: rows().link(), "learn": lambda: rows().learn()},
        **{"within": lambda: within().link(), "search": lambda: search()()},
    }

    def refresh(module: str) -> None:
        for each in columns() if module in PROFILED else [rows()] if module == "verbs.row_comparison" else []:
            each.refresh()

    before: dict[str, Figures] = {}
    for measured, module, *constants in map(str.split, TRIALS.strip().splitlines()):
        wanted = [each for each in constants if is_wanted(f"{module}.{each.partition('=')[0]}", options.only)]
        for verb in measured.split(",") if wanted else ():
            if verb not in before:
                before[verb] = verbs[verb]()
                print(verb, *(f"{each}={figure:.3f}" for each, figure in before[verb].items()), sep="  ", flush=True)
        for constant, setting in (
            (each.partition("=")[0], x) for each in wanted for x in each.partition("=")[2].split(",")
        ):
            values, restore = change(module, constant, setting)
            refresh(module)
            after = merge(verbs[verb]() for verb in measured.split(","))
            restore()
            gain = {each: after[each] - old for verb in measured.split(",") for each, old in before[verb].items()}
            order, label = sorted(gain, key=gain.__getitem__), f"{module}.{constant} {values}"
            shown = (
                f"{each}: {after[each] - gain[each]:.3f} {after[each]:.3f} {gain[each]:+.3f}"
                for each in (order[0], order[-1])
            )
            print(label, *shown, f"({time.process_time():.0f} s)", sep="  ", flush=True)
            if options.record:
                least = order[0]
                figures = {"with": after[least] - gain[least], "without": after[least]}
                data = [*(each / "corpus.json" for each in folders), *options.tables.glob("*_concepts.csv")]
                add_record(figures, setting=f"Constants: `{label}`, {least}", data=data, seed=0, navi=navi)
        if wanted:
            refresh(module)


def is_wanted(label: str, only: list[str]) -> bool:
    return not only or any(label == each or label.startswith(f"{each}.") for each in only)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("tables", type=Path)
    parser.add_argument("--only", nargs="+", default=[], help="modules or constants, without `navi.`")
    parser.add_argument("--names", nargs="+", default=["movie", "product"])
    parser.add_argument("--num", type=int, default=10, help="validation tables of each corpus, at most")
    parser.add_argument("--rows", type=int, default=300, help="rows of each table, at most")
    parser.add_argument("--linked", type=int, default=600, help="rows of each table that is linked, at most")
    parser.add_argument("--sets", type=int, default=2, help="pairs of tables of each kind that are linked, at most")
    parser.add_argument("--record", action="store_true", help="append the figures to benchmarks/results.jsonl")
    main(parser.parse_args())
