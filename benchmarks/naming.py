"""How often blind naming finds what a column is, on held-out rows of known tables and on tables never seen.

    python benchmarks/naming.py CORPUS CONCEPTS.csv [--model MODEL] [--split unseen] [--rows 40] [--tables 10]
                                [--hide some|all] [--evidence model|profiles|both] [--training FOLDER ...]

MODEL was pretrained on the corpus's training rows; the model that comes along, if none is given, is shown their columns
first. CONCEPTS.csv (table, header, concept) is the gold: a proposed header is right if the gold of some training table
puts it in the column's concept.
`strict` asks more: the known column that the proposal rests on must be of the concept itself. Columns whose concept no
training table has cannot be named rightly; they are counted apart. `--hide some` hides a quarter of a table's headers
at a time, `--hide all` every one at once. One line a method. `--evidence model` goes by the model's vectors alone,
`profiles` by what is compared of values without a model (by a scorer that was fitted so, if its `scorer.json` lies in
the folder that `--known` names). If a table of the split overlaps with one in the folders of
`--training` (but for those that the file `--without` lists), nothing runs.
"""

# needs: a prepared corpus, a model pretrained on it, and gold
from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from concepts import list_frames, read_concepts
from overlap import check_no_overlap
from records import add_record

from navi.columns import COLUMNS_FILE, Background, ColumnProfiles, PairScorer, sketch_columns
from navi.columns.features import Cosines
from navi.corpus import Corpus
from navi.training.export import survey_columns
from navi.verbs import Navi
from navi.verbs import name as naming
from navi.verbs.name import KnownHeaders, name_columns

TOP = 5


class NamingGold:
    """Which concept each column has, and which concepts the training tables call by a header."""

    def __init__(self, file: Path, known: ColumnProfiles) -> None:
        self._concept = read_concepts(file)
        self.of_header: dict[str, set[str]] = {}
        for table, header, attribute in zip(known.tables, known.headers, known.attributes, strict=True):
            concept = self.find(table, header)
            if concept is not None:
                self.of_header.setdefault(attribute, set()).add(concept)
        self.nameable = set().union(*self.of_header.values())

    def find(self, table: str, header: str) -> str | None:
        return self._concept.get((table, header))


class Tally:
    """Counts right proposals."""

    def __init__(self) -> None:
        self.count, self.first, self.among = 0, 0, 0

    def add(self, right: list[bool]) -> None:
        self.count += 1
        self.first += right[0]
        self.among += any(right[:TOP])


class NamingResults:
    """What came of naming."""

    def __init__(self) -> None:
        self.tallies = {name: Tally() for name in ("navi", "nearest by words", "most frequent header")}
        self.strict = 0
        self.unnameable = 0
        self.sure: list[tuple[float, bool]] = []
        self.misses: list[str] = []

    def list_figures(self) -> dict[str, dict[str, float]]:
        """Return the figures of each method."""
        found = {}
        for name, tally in self.tallies.items():
            count = max(tally.count, 1)
            found[name] = {"columns": tally.count, "top 1": tally.first / count, "top 5": tally.among / count}
        found["navi"]["strict"] = self.strict / max(self.tallies["navi"].count, 1)
        probability, right = np.array(self.sure).T
        for low, high in ((0.0, 0.3), (0.3, 0.6), (0.6, 1.01)):
            inside = (probability >= low) & (probability < high)
            if inside.any():
                found["navi"] |= {f"right from {low}": right[inside].mean(), f"sure from {low}": inside.sum()}
        return found


def propose_frequent(known: ColumnProfiles) -> list[str]:
    """Return the attributes that most known tables have."""
    counted = sorted(set(zip(known.tables, known.attributes, strict=True)))
    return [name for name, _ in Counter(attribute for _, attribute in counted).most_common(TOP)]


def propose_by_words(navi: Navi, frame: list[dict[str, str]], known: ColumnProfiles) -> dict[str, list[str]]:
    """Return for each column the attributes of the known columns whose words are most like its own (TF-IDF cosine)."""
    encoded = navi.encode(frame)
    words = sketch_columns(encoded).bags["words"]
    score = Cosines(words, known.bags["words"], Background([known]).weights["words"]).measure()
    candidates = KnownHeaders(known)
    best, _ = candidates.find_best(score)
    headers = [encoded.headers[int(number)].as_py() for number in encoded.arrays.column_header]
    return {
        header: [candidates.attributes[place] for place in np.argsort(-best[row], kind="stable")[:TOP]]
        for row, header in enumerate(headers)
    }


def hide(frame: list[dict[str, str]], how: str) -> tuple[list[dict[str, str]], dict[str, str]]:
    """Return the rows with the headers that naming is shown, and which header each of these stands for."""
    headers = list(dict.fromkeys(header for row in frame for header in row))
    shown = {header: f"col_{place}" if how == "all" else header for place, header in enumerate(headers)}
    renamed = [{shown[header]: value for header, value in row.items()} for row in frame]
    return renamed, {name: header for header, name in shown.items()}


def measure(
    navi: Navi, corpus: Corpus, known: ColumnProfiles, gold: NamingGold, arguments: argparse.Namespace
) -> NamingResults:
    """Name the columns of a split's tables."""
    results = NamingResults()
    frequent = propose_frequent(known)
    attribute_of = dict(zip(known.headers, known.attributes, strict=True))
    column_of = {
        f"{table}.{header}": (table, header) for table, header in zip(known.tables, known.headers, strict=True)
    }
    for table, frame in list_frames(corpus, arguments.split, arguments.table_rows, arguments.tables):
        shown, header_of = hide(frame, arguments.hide)
        concept_of = {name: gold.find(table, header) for name, header in header_of.items()}
        asked = [name for name, concept in concept_of.items() if concept in gold.nameable]
        results.unnameable += sum(concept is not None for concept in concept_of.values()) - len(asked)
        if not asked:
            continue
        by_words = propose_by_words(navi, shown, known)
        for names in name_columns(navi, shown, asked, top=TOP, rows=arguments.rows, free=arguments.free):
            concept, best = concept_of[names.column], names.candidates[0]
            lists = {
                "navi": [attribute_of.get(each.header, each.header) for each in names.candidates],
                "nearest by words": by_words[names.column],
                "most frequent header": frequent,
            }
            right = {name: [concept in gold.of_header.get(each, ()) for each in lists[name]] for name in lists}
            for name, proposed in right.items():
                results.tallies[name].add(proposed)
            results.strict += best.like is not None and gold.find(*column_of[best.like]) == concept
            results.sure.append((best.probability, right["navi"][0]))
            if not right["navi"][0]:
                results.misses.append(f"{table}.{header_of[names.column]} ({concept}): {', '.join(lists['navi'])}")
    return results


def show_columns(navi: Navi, corpus: Corpus, folder: Path) -> ColumnProfiles:
    """Have a model know the columns of a corpus's training rows, kept in a folder, unless it knows columns already."""
    if not (navi.folder / COLUMNS_FILE).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / COLUMNS_FILE).is_file():
            survey_columns(navi.runner.model, navi.special, corpus).save(folder)
        navi.folder = folder
    return ColumnProfiles.load(navi.folder)


def limit_evidence(evidence: str) -> None:
    """Have naming go by the model, or by profiles, alone."""
    if evidence == "model":
        PairScorer.score_values = lambda _, first, second, __: np.zeros((len(first), len(second)), np.float32)
    elif evidence == "profiles":
        naming.MODEL_WEIGHT = 0.0
        compare = PairScorer.score_values
        without = "value", "header", "column"

        def score_values(self, first, second, background):
            blind = (replace(each, vectors={key: 0 * each.vectors[key] for key in without}) for each in (first, second))
            return compare(self, *blind, background)

        PairScorer.score_values = score_values


def main(arguments: argparse.Namespace) -> None:
    navi, corpus = Navi.from_pretrained(arguments.model, device=arguments.device), Corpus.open(arguments.corpus)
    if arguments.training:
        named = dict(list_frames(corpus, arguments.split, arguments.table_rows, arguments.tables))
        check_no_overlap(arguments.training, named, without=arguments.without)
    print(f"model {navi.fingerprint[:16]}")  # of the model's own folder, not of what it is shown
    known = show_columns(navi, corpus, arguments.known)
    limit_evidence(arguments.evidence)
    begun = time.perf_counter()
    results = measure(navi, corpus, known, NamingGold(arguments.concepts, known), arguments)
    print(
        f"naming split={arguments.split} hide={arguments.hide} rows={arguments.rows} free={arguments.free} "
        f"evidence={arguments.evidence} unnameable={results.unnameable} seconds={time.perf_counter() - begun:.0f}"
    )
    for name, figures in results.list_figures().items():
        print(f"{name:22s}", *(f"{each}={figure:.3f}" for each, figure in figures.items()))
        if arguments.record:
            method = f"{name} {arguments.evidence}" if name == "navi" else name
            setting, data = f"{corpus.path.name} {arguments.split} {method}", [arguments.corpus, arguments.concepts]
            add_record(figures, setting=setting, data=data, seed=0, navi=navi)
    if arguments.misses:
        print("\n".join(results.misses))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("concepts", type=Path)
    parser.add_argument(
        "--model", type=Path, default=None, help="a model directory; the one that comes along if not given"
    )
    parser.add_argument("--known", type=Path, default=Path("known"), help="folder for what that one is shown")
    parser.add_argument("--evidence", choices=("model", "profiles", "both"), default="both")
    parser.add_argument("--split", choices=("unseen", "test", "validation"), default="unseen")
    parser.add_argument("--hide", choices=("some", "all"), default="some")
    parser.add_argument("--rows", type=int, default=40, help="rows that the model reads of each table")
    parser.add_argument("--table-rows", type=int, default=1000, help="rows of each table, at most")
    parser.add_argument("--tables", type=int, default=None, help="tables, at most, the first by a fixed draw")
    parser.add_argument("--no-free", dest="free", action="store_false", help="known headers alone")
    parser.add_argument("--training", type=Path, nargs="+", help="folders that the model was trained on")
    parser.add_argument("--without", type=Path, help="a file that lists tables of these that it was not trained on")
    parser.add_argument("--misses", action="store_true", help="list wrong first proposals")
    parser.add_argument("--record", action="store_true", help="append the figures to benchmarks/results.jsonl")
    parser.add_argument("--device", default=None)
    main(parser.parse_args())
