"""How well columns are matched, beside Valentine's matchers and sentence embeddings.

    python benchmarks/matching.py unseen  --model MODEL --corpus CORPUS --concepts CONCEPTS.csv
    python benchmarks/matching.py test    --model MODEL --corpus CORPUS --concepts CONCEPTS.csv --tables 16 --pairs 60
    python benchmarks/matching.py wdc     --model MODEL --data wdc_product_sites/ --training product/
    python benchmarks/matching.py t2d     --model MODEL --data t2d_sm_wh.tar.gz
    python benchmarks/matching.py gdc     --model MODEL --data gdc/

`unseen` and `test` take the pairs of tables of that split of a corpus, gold from a CSV file (table, header, concept).
All methods see the same rows of the same pairs; a sample is said with `--tables` and `--pairs`. One line a method.

Precision, recall and F1 are measured three ways: at a method's own choice (NAVI: the pairs that `navi match` takes, its
clusters over all tables of a group, and `assigned`, what the others' rule makes of its scores; the others: the best
one-to-one assignment above the median score, which is Valentine's default), at the threshold that is best for it on
this very gold (`best`), and likewise after the best one-to-one assignment (`best 1:1`). The last two are known only in
hindsight. `gdc` matches studies to one wide schema, and scores are ranked instead: the mean reciprocal rank of the best
right target of each source column that has any, and the recall of the best pairs of a study, as many as its gold has.
NAVI matches each study once more, by itself and from its files, to see how many seconds one takes.

`--evidence model` compares the model's vectors of columns by their cosine, and chooses as the others do; `profiles`
scores columns as if no model had read them, by a scorer that was fitted so (`--profiles-scorer`, what
`scripts/fit_scorer.py --without header_vector value_vector column_vector` writes).

`--training` names the folders that the model was trained on (but for the tables that the file `--without` lists): a
benchmark that overlaps with them refuses to run. `wdc`, some of whose shops are product tables, leaves out the pairs
with a table that has the same rows as one in these folders, listed or not.
"""

# needs: a model, and gold for it
from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from matchers import Matcher, Scores, list_headers, make_sentences, make_valentine
from numpy.typing import NDArray
from overlap import check_no_overlap, find_overlaps
from records import add_record
from schema_tasks import (
    MatchingTask,
    TablePair,
    draw_pairs,
    read_corpus_task,
    read_gdc_task,
    read_t2d_task,
    read_wdc_task,
)
from sklearn.preprocessing import normalize

from navi.columns import Background, ColumnProfiles, PairScorer
from navi.settings import MATCH_THRESHOLD
from navi.verbs import Navi
from navi.verbs.column_groups import ColumnMatcher
from navi.verbs.match import match_profiles, profile_tables

METHODS = ("navi", "st headers", "st headers+values", "coma", "coma+instances", "distribution", "jaccard")


def assign(scores: Scores) -> Scores:
    """Return the best one-to-one assignment."""
    from scipy.optimize import linear_sum_assignment

    ours, theirs = (sorted({pair[side] for pair in scores}) for side in (0, 1))
    table = np.zeros((len(ours), len(theirs)))
    for (a, b), score in scores.items():
        table[ours.index(a), theirs.index(b)] = score
    rows, columns = linear_sum_assignment(table, maximize=True)
    pairs = ((ours[i], theirs[j]) for i, j in zip(rows, columns, strict=True))
    return {pair: scores[pair] for pair in pairs if pair in scores}


def choose_as_valentine(scores: Scores) -> set[tuple[str, str]]:
    """Return the one-to-one assignment above the median of the distinct scores."""
    distinct = sorted(set(scores.values()), reverse=True)
    if len(distinct) < 2:
        return set(scores)
    least = distinct[int(np.ceil(len(distinct) / 2))] if len(distinct) > 2 else distinct[-1]
    return {pair for pair, score in assign(scores).items() if score >= least}


class Measure:
    """Gathers the scores and choices of one method over all pairs of tables."""

    def __init__(self) -> None:
        self._scores: list[float] = []
        self._assigned: list[float] = []
        self._right: list[bool] = []
        self._chosen = {"own": [0, 0], "clusters": [0, 0], "assigned": [0, 0]}
        self._total = 0

    def add(self, pair: TablePair, scores: Scores, **chosen: set[tuple[str, str]]) -> None:
        """Take in the scores of a pair of tables; what was chosen of them, unless it is by the others' rule."""
        chosen["assigned" if chosen else "own"] = choose_as_valentine(scores)
        self._total += len(pair.right)
        kept = {each: score for each, score in scores.items() if pair.judged is None or each in pair.judged}
        assigned = assign(scores) if scores else {}
        for each, score in kept.items():
            self._scores.append(score)
            self._assigned.append(score if each in assigned else -np.inf)
            self._right.append(each in pair.right)
        for name, pairs in chosen.items():
            pairs = {each for each in pairs if pair.judged is None or each in pair.judged}
            self._chosen[name][0] += len(pairs)
            self._chosen[name][1] += len(pairs & pair.right)

    def figures(self) -> dict[str, float]:
        found: dict[str, float] = {"gold": self._total}
        for choice, (chosen, right) in self._chosen.items():
            if chosen:
                found[f"{choice} precision"], found[f"{choice} recall"] = right / chosen, right / self._total
                found[f"{choice} F1"] = 2 * right / (chosen + self._total)
        return found | {"best F1": self._find_best(self._scores), "best 1:1 F1": self._find_best(self._assigned)}

    def odds_figures(self) -> dict[str, float]:
        """Return how honest scores are that are logarithms of odds: of the pairs with a probability of 0.1 or more."""
        odds, right = np.array(self._scores), np.array(self._right)
        probability = 1 / (1 + np.exp(-odds))
        bins = np.where(probability >= 0.1, np.minimum((probability * 10).astype(int), 9), -1)
        parts = [bins == number for number in range(10) if (bins == number).any()]
        error = sum(abs(probability[part].sum() - right[part].sum()) for part in parts) / max((bins >= 0).sum(), 1)
        sure = probability >= 0.95
        right_at = right[sure].mean() if sure.any() else 1.0
        return {"calibration error": error, "right at 0.95": right_at, "pairs at 0.95": sure.sum()}

    def _find_best(self, scores: list[float]) -> float:
        scored, right = np.array(scores), np.array(self._right, float)
        order = np.argsort(-scored, kind="stable")
        order = order[np.isfinite(scored[order])]
        if len(order) == 0:
            return 0.0
        hits = np.cumsum(right[order])
        f1 = 2 * hits / (np.arange(1, len(order) + 1) + self._total)
        last = np.append(scored[order][1:] != scored[order][:-1], True)
        return float(f1[last].max())


class Ranking:
    """Gathers how high the scores of one method rank what is right, study by study."""

    def __init__(self) -> None:
        self._reciprocals: dict[str, list[float]] = {}
        self._recalls: dict[str, float] = {}
        self._scored: list[bool] = []

    def add(self, pair: TablePair, scores: Scores, **_: set[tuple[str, str]]) -> None:
        """Take in the scores of a study; a pair without a score ranks nowhere, equal scores share their ranks."""
        reciprocals = []
        for source in sorted({source for source, _ in pair.right}):
            own = {target: score for (column, target), score in scores.items() if column == source}
            best = max((own.get(target, -np.inf) for column, target in pair.right if column == source))
            wrong = np.array([score for target, score in own.items() if (source, target) not in pair.right])
            rank = 1 + (wrong > best).sum() + (wrong == best).sum() / 2
            reciprocals.append(1 / rank if np.isfinite(best) else 0.0)
        self._reciprocals[pair.group] = reciprocals
        self._scored += [each in scores for each in pair.right]
        found = sorted(scores, key=scores.__getitem__, reverse=True)[: len(pair.right)]
        self._recalls[pair.group] = len(pair.right.intersection(found)) / len(pair.right)

    def figures(self) -> dict[str, float]:
        means = {study: float(np.mean(each)) for study, each in self._reciprocals.items()}
        columns = np.mean([each for study in self._reciprocals.values() for each in study])
        return {
            "MRR": np.mean(list(means.values())),
            "recall": np.mean(list(self._recalls.values())),
            "MRR of all columns": columns,
            "right pairs with a score": sum(self._scored),
            "right pairs": len(self._scored),
            **{f"MRR of {study}": means[study] for study in sorted(means)},
            **{f"recall of {study}": self._recalls[study] for study in sorted(means)},
        }


class NaviScores:
    """What NAVI says of the columns of some tables; nothing else here knows how it is asked."""

    def __init__(self, navi: Navi, profiles: ColumnProfiles, evidence: str, profiles_scorer: Path | None) -> None:
        blank = {name: np.zeros_like(each) for name, each in profiles.vectors.items()}
        self._profiles = replace(profiles, vectors=blank) if evidence == "profiles" else profiles
        self.evidence = evidence
        self._scorer = PairScorer.load(profiles_scorer if profiles_scorer and evidence == "profiles" else navi.folder)
        self._background = Background([self._profiles])

    def score(self, first: str, second: str) -> Scores:
        """Return the logarithm of the odds that two columns mean the same, for all pairs of two tables."""
        both = self._take({first, second})
        if self.evidence == "model":
            unit = normalize(both.vectors["column"])
            return self._list_pairs(both, unit @ unit.T, first, second)
        logit = self._scorer.compete(self._scorer.score_total(both, both, self._background), both.tables)
        return self._list_pairs(both, logit, first, second)

    @staticmethod
    def _list_pairs(both: ColumnProfiles, score: NDArray[np.floating], first: str, second: str) -> Scores:
        ours, theirs = ([k for k in range(len(both)) if both.tables[k] == name] for name in (first, second))
        return {(both.headers[i], both.headers[j]): float(score[i, j]) for i in ours for j in theirs}

    def cluster(self, names: set[str]) -> dict[tuple[str, str], int]:
        """Return the number of the cluster of each column, by table and header."""
        matches = match_profiles(ColumnMatcher(self._take(names), self._scorer))
        return {(each.table, each.header): at for at, found in enumerate(matches.clusters) for each in found.columns}

    def _take(self, names: set[str]) -> ColumnProfiles:
        return self._profiles.take(np.flatnonzero(np.isin(self._profiles.tables, list(names))))


def measure_navi(task: MatchingTask, navi: NaviScores, measure: Measure | Ranking) -> None:
    """Measure NAVI: pairs of tables by themselves, and clusters over all tables of a group; cosines as the others."""
    if navi.evidence == "model":
        for pair in task.pairs:
            measure.add(pair, navi.score(pair.first, pair.second))
        return
    least = np.log(MATCH_THRESHOLD / (1 - MATCH_THRESHOLD))
    cluster: dict[tuple[str, str], int] = {}
    for group in sorted({pair.group for pair in task.pairs}) if isinstance(measure, Measure) else ():
        names = {name for pair in task.pairs if pair.group == group for name in (pair.first, pair.second)}
        cluster |= navi.cluster(names)
    for pair in task.pairs:
        scores = navi.score(pair.first, pair.second)
        together = {(a, b) for a, b in scores if cluster and cluster[pair.first, a] == cluster[pair.second, b]}
        measure.add(pair, scores, own={each for each, score in scores.items() if score >= least}, clusters=together)


def measure_other(task: MatchingTask, matcher: Matcher, measure: Measure | Ranking) -> None:
    """Measure another matcher on the pairs of tables."""
    for pair in task.pairs:
        measure.add(pair, matcher(task.tables[pair.first], task.tables[pair.second]))


def time_studies(navi: Navi, folder: Path) -> dict[str, float]:
    """Return the seconds in which a study is matched to the schema: both files read, profiled, compared and ranked."""
    seconds = []
    for study in sorted(file.parent for file in folder.glob("*/groundtruth.csv")):
        begun = time.perf_counter()
        navi.match(study / "source.csv.gz", to=folder / "target.csv.gz")
        seconds.append(time.perf_counter() - begun)
    return {"seconds of the slowest study": max(seconds), "seconds of a study": float(np.mean(seconds))}


def read_task(arguments: argparse.Namespace) -> MatchingTask:
    """Return the task asked for, without anything that the model was trained on."""
    if arguments.task in ("unseen", "test"):
        from navi.corpus import Corpus

        corpus = Corpus.open(arguments.corpus)
        task = read_corpus_task(corpus, arguments.concepts, arguments.task, arguments.table_rows, arguments.tables)
    else:
        task = {"gdc": read_gdc_task, "t2d": read_t2d_task, "wdc": read_wdc_task}[arguments.task](arguments.data)
    if arguments.task == "wdc" and arguments.training:
        overlaps = find_overlaps(arguments.training, task.tables)
        known, num_pairs = {each.benchmark for each in overlaps if each.kind == "same rows"}, len(task.pairs)
        task = MatchingTask(
            tables=task.tables, pairs=[pair for pair in task.pairs if not {pair.first, pair.second} & known]
        )
        print(f"{len(known)} tables are in --training; {num_pairs - len(task.pairs)} of {num_pairs} pairs left out")
    elif arguments.training:
        check_no_overlap(arguments.training, task.tables, without=arguments.without)
    elif arguments.task == "wdc":
        raise SystemExit("wdc needs --training: some of its shops are product tables; pairs with these are left out.")
    return draw_pairs(task, arguments.pairs)


def main(arguments: argparse.Namespace) -> None:
    task = read_task(arguments)
    columns = sum(len(list_headers(rows)) for rows in task.tables.values())
    print(f"matching task={arguments.task} tables={len(task.tables)} pairs={len(task.pairs)} columns={columns}")
    data = [each for each in (arguments.data, arguments.corpus, arguments.concepts) if each]
    navi = Navi.from_pretrained(arguments.model, device=arguments.device)
    profiles = profile_tables(navi, task.tables) if "navi" in arguments.methods else None
    methods = [
        (name, evidence) for name in arguments.methods for evidence in (arguments.evidence if name == "navi" else [""])
    ]
    for name, evidence in methods:
        measure, begun = Ranking() if arguments.task == "gdc" else Measure(), time.perf_counter()
        if profiles is not None and evidence:
            measure_navi(task, NaviScores(navi, profiles, evidence, arguments.profiles_scorer), measure)
        elif name.startswith("st "):
            measure_other(task, make_sentences(values=name.endswith("values")), measure)
        else:
            measure_other(task, make_valentine(name, arguments.valentine_rows), measure)
        figures = measure.figures()
        if evidence in ("profiles", "both") and isinstance(measure, Measure):
            figures |= measure.odds_figures()
        seconds = time.perf_counter() - begun
        if arguments.task == "gdc" and evidence == "both":
            figures |= time_studies(navi, arguments.data)
        label = f"{name} {evidence}".strip()
        shown = "  ".join(f"{each}={figure:.3f}" for each, figure in figures.items())
        print(f"{label:18s} {shown} seconds={seconds:.0f}", flush=True)
        if arguments.record:
            of = arguments.data.name if arguments.data else f"{arguments.corpus.name} {arguments.task}"
            add_record(figures, setting=f"{of}: {label}", data=data, seed=0, navi=navi)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("unseen", "test", "wdc", "t2d", "gdc"))
    parser.add_argument("--model", type=Path)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--concepts", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--training", type=Path, nargs="+", help="folders of tables that the model was trained on")
    parser.add_argument("--without", type=Path, help="file that names tables of --training that it was not trained on")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--tables", type=int, default=None, help="tables of a corpus, at most, by a fixed draw")
    parser.add_argument("--pairs", type=int, default=None, help="pairs of tables, at most, by a fixed draw")
    parser.add_argument("--table-rows", type=int, default=1000, help="rows of each table, at most")
    parser.add_argument("--valentine-rows", type=int, default=200, help="rows that Valentine reads of each table")
    parser.add_argument("--evidence", nargs="+", choices=("model", "profiles", "both"), default=["both"])
    parser.add_argument("--profiles-scorer", type=Path, help="folder of a scorer for `--evidence profiles`")
    parser.add_argument("--record", action="store_true", help="append the figures to benchmarks/results.jsonl")
    parser.add_argument("--device", default=None)
    main(parser.parse_args())
