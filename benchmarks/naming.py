"""How often blind naming finds what a column is, on held-out rows of known tables and on tables never seen.

    python benchmarks/naming.py CORPUS MODEL CONCEPTS.csv [--split unseen] [--rows 40] [--tables 10] [--hide some|all]

CORPUS and MODEL belong together: the model was pretrained on the corpus's training rows. CONCEPTS.csv (table, header,
concept) is the gold: a proposed header is right if the gold of some training table puts it in the column's concept.
`strict` asks more: the known column that the proposal rests on must be of the concept itself. Columns whose concept no
training table has cannot be named rightly; they are counted apart. `--hide some` hides a quarter of a table's headers
at a time, `--hide all` every one at once. One line a method.
"""

# needs: a prepared corpus, a model pretrained on it, and gold
from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path

import numpy as np
from concepts import list_frames, read_concepts

from navi.columns import Background, ColumnProfiles, sketch_columns
from navi.columns.features import compare_bags
from navi.corpus import Corpus
from navi.verbs import Navi
from navi.verbs.name import list_known_headers, name_columns

TOP = 5


class Gold:
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


class Results:
    """What came of naming."""

    def __init__(self) -> None:
        self.tallies = {name: Tally() for name in ("navi", "nearest by words", "most frequent header")}
        self.strict = 0
        self.unnameable = 0
        self.sure: list[tuple[float, bool]] = []
        self.misses: list[str] = []

    def show(self) -> None:
        for name, tally in self.tallies.items():
            count = max(tally.count, 1)
            strict = f" strict={self.strict / count:.3f}" if name == "navi" else ""
            print(f"{name:22s} n={tally.count} top1={tally.first / count:.3f} top5={tally.among / count:.3f}{strict}")
        probability, right = np.array(self.sure).T
        for low, high in ((0.0, 0.3), (0.3, 0.6), (0.6, 1.01)):
            inside = (probability >= low) & (probability < high)
            if inside.any():
                print(f"  navi sure {low:.1f} to {high:.1f}: n={inside.sum()} right={right[inside].mean():.3f}")


def propose_frequent(known: ColumnProfiles) -> list[str]:
    """Return the attributes that most known tables have."""
    counted = Counter({(table, attribute) for table, attribute in zip(known.tables, known.attributes, strict=True)})
    return [name for name, _ in Counter(attribute for _, attribute in counted).most_common(TOP)]


def propose_by_words(navi: Navi, frame: list[dict[str, str]], known: ColumnProfiles) -> dict[str, list[str]]:
    """Return for each column the attributes of the known columns whose words are most like its own (TF-IDF cosine)."""
    encoded = navi.encode(frame)
    words = sketch_columns(encoded).bags["words"]
    score = compare_bags(words, known.bags["words"], Background([known]).weights["words"])
    candidates = list_known_headers(known, navi.tokenizer)
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


def measure(navi: Navi, corpus: Corpus, known: ColumnProfiles, gold: Gold, arguments: argparse.Namespace) -> Results:
    """Name the columns of a split's tables."""
    results = Results()
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


def main(arguments: argparse.Namespace) -> None:
    navi = Navi.from_pretrained(arguments.model, device=arguments.device)
    known = ColumnProfiles.load(navi.folder)
    begun = time.perf_counter()
    results = measure(navi, Corpus.open(arguments.corpus), known, Gold(arguments.concepts, known), arguments)
    print(
        f"naming split={arguments.split} hide={arguments.hide} rows={arguments.rows} free={arguments.free} "
        f"unnameable={results.unnameable} seconds={time.perf_counter() - begun:.0f}"
    )
    results.show()
    if arguments.misses:
        print("\n".join(results.misses))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("concepts", type=Path)
    parser.add_argument("--split", choices=("unseen", "test", "validation"), default="unseen")
    parser.add_argument("--hide", choices=("some", "all"), default="some")
    parser.add_argument("--rows", type=int, default=40, help="rows that the model reads of each table")
    parser.add_argument("--table-rows", type=int, default=1000, help="rows of each table, at most")
    parser.add_argument("--tables", type=int, default=None, help="tables, at most, the first by a fixed draw")
    parser.add_argument("--no-free", dest="free", action="store_false", help="known headers alone")
    parser.add_argument("--misses", action="store_true", help="list wrong first proposals")
    parser.add_argument("--device", default=None)
    main(parser.parse_args())
