"""Precision, recall and F1 of matching on pairs of columns, beside Valentine's matchers and sentence embeddings.

    python benchmarks/matching.py unseen  --model MODEL --corpus CORPUS --concepts CONCEPTS.csv
    python benchmarks/matching.py test    --model MODEL --corpus CORPUS --concepts CONCEPTS.csv --tables 16 --pairs 60
    python benchmarks/matching.py wdc     --model MODEL --data wdc_product_sites/
    python benchmarks/matching.py t2d     --model MODEL --data t2d_sm_wh.tar.gz

`unseen` and `test` take the pairs of tables of that split of the corpus that the model was pretrained on, gold from a
CSV file (table, header, concept). All methods see the same rows of the same pairs; a sample is said with `--tables` and
`--pairs`. Every method is measured three ways: at its own choice (NAVI: probability 0.5 of a pair, and its clusters
over all tables of a group, and `assigned`, what the others' rule makes of its scores; the others: the best one-to-one
assignment above the median score, which is Valentine's default), at the threshold that is best for it on this very
gold (`best`), and likewise after the best one-to-one assignment (`best 1:1`). The last two are known only in hindsight.
One line a method.
"""

# needs: a model, and gold for it
from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from matchers import Matcher, Scores, list_headers, make_sentences, make_valentine
from schema_tasks import TablePair, Task, draw_pairs, read_corpus_task, read_t2d_task, read_wdc_task

from navi.columns import DEFAULT_SCORER, Background, ColumnProfiles, PairScorer, join_profiles, profile_columns
from navi.verbs import Navi
from navi.verbs.match import ColumnRef, match_profiles, score_columns, weigh_pairs

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
        self.seconds = 0.0

    def add(self, pair: TablePair, scores: Scores, **chosen: set[tuple[str, str]]) -> None:
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

    def show(self, name: str) -> None:
        parts = []
        for choice, (found, right) in self._chosen.items():
            if found:
                precision, recall = right / found, right / self._total
                f1 = 2 * right / (found + self._total)
                parts.append(f"{choice} P={precision:.3f} R={recall:.3f} F1={f1:.3f}")
        best, best_assigned = self._find_best(self._scores), self._find_best(self._assigned)
        print(
            f"{name:18s} {'  '.join(parts)}  best F1={best:.3f}  best 1:1 F1={best_assigned:.3f}  "
            f"gold={self._total} seconds={self.seconds:.0f}",
            flush=True,
        )

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


def profile_task(navi: Navi, task: Task, rows: int) -> ColumnProfiles:
    """Return the profiles of all columns of all tables."""
    parts = []
    for name, table in task.tables.items():
        if table:
            parts.append(profile_columns(navi.runner, navi.encode({name: table}), rows_per_column=rows))
    return join_profiles(parts)


def measure_navi(task: Task, profiles: ColumnProfiles, scorer: PairScorer, known: ColumnProfiles | None) -> Measure:
    """Measure NAVI: pairs of tables by themselves, and clusters over all tables of a group."""
    measure, begun = Measure(), time.perf_counter()
    table = np.array(profiles.tables)
    background = Background([profiles] if known is None else [profiles, known])
    cluster: dict[ColumnRef, int] = {}
    for group in sorted({pair.group for pair in task.pairs}):
        names = {name for pair in task.pairs if pair.group == group for name in (pair.first, pair.second)}
        matches = match_profiles(profiles.take(np.flatnonzero(np.isin(table, list(names)))), scorer, known=known)
        for each in matches.clusters:
            cluster |= dict.fromkeys(each.columns, len(cluster))
    for pair in task.pairs:
        both = profiles.take(np.flatnonzero(np.isin(table, [pair.first, pair.second])))
        logit = weigh_pairs(score_columns(both, scorer, background).total, both)
        ours, theirs = ([k for k in range(len(both)) if both.tables[k] == name] for name in (pair.first, pair.second))
        scores = {(both.headers[i], both.headers[j]): float(logit[i, j]) for i in ours for j in theirs}
        together = {
            (a, b) for a, b in scores if cluster[ColumnRef(pair.first, a)] == cluster[ColumnRef(pair.second, b)]
        }
        own = {each for each, score in scores.items() if score > 0}
        measure.add(pair, scores, own=own, clusters=together, assigned=choose_as_valentine(scores))
    measure.seconds = time.perf_counter() - begun
    return measure


def measure_other(task: Task, matcher: Matcher) -> Measure:
    """Measure another matcher on the pairs of tables."""
    measure, begun = Measure(), time.perf_counter()
    for pair in task.pairs:
        scores = matcher(task.tables[pair.first], task.tables[pair.second])
        measure.add(pair, scores, own=choose_as_valentine(scores))
    measure.seconds = time.perf_counter() - begun
    return measure


def read_task(arguments: argparse.Namespace) -> Task:
    if arguments.task == "wdc":
        return read_wdc_task(arguments.data)
    if arguments.task == "t2d":
        return read_t2d_task(arguments.data)
    from navi.corpus import Corpus

    corpus = Corpus.open(arguments.corpus)
    return read_corpus_task(corpus, arguments.concepts, arguments.task, arguments.table_rows, arguments.tables)


def main(arguments: argparse.Namespace) -> None:
    task = draw_pairs(read_task(arguments), arguments.pairs)
    columns = sum(len(list_headers(rows)) for rows in task.tables.values())
    print(f"matching task={arguments.task} tables={len(task.tables)} pairs={len(task.pairs)} columns={columns}")
    if "navi" in arguments.methods:
        navi = Navi.from_pretrained(arguments.model, device=arguments.device)
        begun = time.perf_counter()
        profiles = profile_task(navi, task, arguments.rows)
        print(f"profiled in {time.perf_counter() - begun:.0f} s", flush=True)
        if arguments.save:
            profiles.save(arguments.save)
        known = ColumnProfiles.load(navi.folder) if arguments.knowledge else None
        measure_navi(task, profiles, PairScorer.load(navi.folder) if known else DEFAULT_SCORER, known).show("navi")
    for name in arguments.methods:
        if name.startswith("st "):
            measure_other(task, make_sentences(values=name.endswith("values"))).show(name)
        elif name != "navi":
            measure_other(task, make_valentine(name, arguments.valentine_rows)).show(name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("unseen", "test", "wdc", "t2d"))
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--concepts", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--tables", type=int, default=None, help="tables of a corpus, at most, by a fixed draw")
    parser.add_argument("--pairs", type=int, default=None, help="pairs of tables, at most, by a fixed draw")
    parser.add_argument("--rows", type=int, default=40, help="rows that the model reads of each table")
    parser.add_argument("--table-rows", type=int, default=1000, help="rows of each table, at most")
    parser.add_argument("--valentine-rows", type=int, default=200, help="rows that Valentine reads of each table")
    parser.add_argument("--no-knowledge", dest="knowledge", action="store_false", help="without the trained columns")
    parser.add_argument("--save", type=Path, help="folder for the profiles")
    parser.add_argument("--device", default=None)
    main(parser.parse_args())
