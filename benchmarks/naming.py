"""How often blind naming finds what a column is, on held-out rows of known tables and on tables never seen.

    python benchmarks/naming.py CORPUS MODEL CONCEPTS.csv [--split unseen] [--rows 40] [--tables 10] [--hide some|all]

CORPUS and MODEL belong together: the model was pretrained on the corpus's training rows. CONCEPTS.csv (table, header,
concept) is the gold: a proposed header is right if the gold of some training table puts it in the column's concept.
`strict` asks more: the known column that the proposal rests on must be of the concept itself. Columns whose concept no
training table has cannot be named rightly; they are counted apart. `--hide some` hides a quarter of a table's headers
at a time, `--hide all` every one at once. One line a method.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path

import numpy as np
from concepts import list_frames, read_concepts

from navi.inference import Navi
from navi.inference.candidates import list_candidates
from navi.inference.naming import name_columns
from navi.inference.profiling import Knowledge
from navi.profiles import Background, ColumnProfiles
from navi.profiles.bags import compare_bags
from navi.profiles.sketches import sketch_columns
from navi.segments import Corpus

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
        self.count, self.first, self.among, self.strict = 0, 0, 0, 0

    def add(self, right: list[bool], strict: bool = False) -> None:
        self.count += 1
        self.first += bool(right[:1] and right[0])
        self.among += any(right[:TOP])
        self.strict += strict

    def show(self, name: str, note: str = "") -> None:
        count = max(self.count, 1)
        print(
            f"{name:24s} n={self.count} top1={self.first / count:.3f} top5={self.among / count:.3f}{note}", flush=True
        )


def propose_frequent(known: ColumnProfiles) -> list[str]:
    """Return the attributes that most known tables have."""
    counted = Counter({(table, attribute) for table, attribute in zip(known.tables, known.attributes, strict=True)})
    return [name for name, _ in Counter(attribute for _, attribute in counted).most_common(TOP)]


def propose_by_words(navi: Navi, frame: list[dict[str, str]], known: ColumnProfiles) -> dict[str, list[str]]:
    """Return for each column the attributes of the known columns whose words are most like its own (TF-IDF cosine)."""
    encoded = navi.encode(frame)
    words = sketch_columns(encoded, np.arange(encoded.arrays.num_rows)).words
    score = compare_bags(words, known.sketches.words, Background([known]).weights["words"])
    candidates = list_candidates(known, navi.tokenizer)
    best, _ = candidates.find_best(score)
    headers = [encoded.headers[int(number)].as_py() for number in encoded.arrays.column_header]
    return {
        header: [candidates.attributes[place] for place in np.argsort(-best[row], kind="stable")[:TOP]]
        for row, header in enumerate(headers)
    }


def main(arguments: argparse.Namespace) -> None:
    navi = Navi.from_pretrained(arguments.model, device=arguments.device)
    corpus = Corpus.open(arguments.corpus)
    known = Knowledge.of(navi.folder).columns
    assert known is not None
    gold = Gold(arguments.concepts, known)
    frequent = propose_frequent(known)
    tallies = {name: Tally() for name in ("navi", "nearest by words", "most frequent header")}
    attribute_of = dict(zip(known.headers, known.attributes, strict=True))
    sources: Counter[str] = Counter()
    unnameable, misses, confidence = 0, [], []
    begun = time.perf_counter()
    for table, frame in list_frames(corpus, arguments.split, arguments.table_rows, arguments.tables):
        headers = list(dict.fromkeys(header for row in frame for header in row))
        shown = {header: f"col_{place}" for place, header in enumerate(headers)} if arguments.hide == "all" else {}
        renamed = [{shown.get(header, header): value for header, value in row.items()} for row in frame]
        asked = [header for header in headers if gold.find(table, header) in gold.nameable]
        unnameable += sum(gold.find(table, header) not in {None, *gold.nameable} for header in headers)
        if not asked:
            continue
        present = {shown.get(header, header): header for header in asked}
        by_words = propose_by_words(navi, frame, known)
        for names in name_columns(navi, renamed, list(present), top=TOP, rows=arguments.rows, free=arguments.free):
            header = present[names.column]
            concept = gold.find(table, header)
            lists = {
                "navi": [attribute_of.get(each.header, each.header) for each in names.candidates],
                "nearest by words": by_words[header],
                "most frequent header": frequent,
            }
            for name, proposed in lists.items():
                tallies[name].add([concept in gold.of_header.get(each, ()) for each in proposed])
            best = names.candidates[0]
            like = best.like.removeprefix(f"{table}.").split(".", 1) if best.like else ["", ""]
            tallies["navi"].strict += gold.find(*_split_like(best.like, known)) == concept if best.like else False
            sources[best.source] += 1
            right = concept in gold.of_header.get(lists["navi"][0], ())
            confidence.append((best.probability, right))
            if not right:
                misses.append(f"{table}.{header} ({concept}): {', '.join(lists['navi'])}")
            del like
    navi_tally = tallies["navi"]
    print(
        f"naming split={arguments.split} hide={arguments.hide} rows={arguments.rows} unnameable={unnameable} "
        f"seconds={time.perf_counter() - begun:.0f} first proposals: {dict(sources)}"
    )
    sure = np.array([probability for probability, _ in confidence])
    hit = np.array([right for _, right in confidence], float)
    note = f" strict={navi_tally.strict / max(navi_tally.count, 1):.3f} mean_p={sure.mean():.3f}"
    for name, tally in tallies.items():
        tally.show(name, note if name == "navi" else "")
    for low, high in ((0.0, 0.3), (0.3, 0.6), (0.6, 1.01)):
        inside = (sure >= low) & (sure < high)
        if inside.any():
            print(f"  p in [{low}, {high:.1f}): n={inside.sum()} right={hit[inside].mean():.3f}")
    if arguments.misses:
        print("\n".join(misses))


def _split_like(like: str, known: ColumnProfiles) -> tuple[str, str]:
    table = next(table for table in known.tables if like.startswith(f"{table}."))
    return table, like.removeprefix(f"{table}.")


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
