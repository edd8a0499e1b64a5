"""Divide a folder of tables into training, validation and unseen tables, so that sisters stay together.

    python benchmarks/split.py movie=MOVIES product=PRODUCTS --together jedai_d5,jedai_d6 pcpartpicker -o split.json

Tables are sisters if `overlap.py` says so of their values, if half of their headers are the same, or if their names
begin with words that `--together` has: one publisher. Sisters of sisters count. Whole families are drawn by a hash of
their names, those of more than a tenth of the tables excepted: first unseen tables, then validation tables, so many of
each. Nothing of the tables' gold is looked at.
"""

# needs: folders of tables
from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path

from overlap import HALF, find_overlaps

from navi.corpus.hashing import hash_text
from navi.tables import ReadReport, find_sources, read_chunks


def read_headers(folder: Path) -> dict[str, frozenset[str]]:
    """Return the headers of each table of a folder, in small letters."""
    return {
        source.name: frozenset(
            header.lower().replace("_", " ") for chunk in read_chunks(source, ReadReport()) for header in chunk.headers
        )
        for source in find_sources([folder]).sources
    }


def group_sisters(
    headers: dict[str, frozenset[str]], pairs: Iterable[tuple[str, str]], together: Sequence[str]
) -> list[list[str]]:
    """Return the families of tables, each sorted, the first by name first."""
    family = {name: {name} for name in headers}

    def join(first: str, second: str) -> None:
        if family[first] is not family[second]:
            family[first] |= family[second]
            for name in family[second]:
                family[name] = family[first]

    for first, second in pairs:
        join(first, second)
    for first, second in combinations(headers, 2):
        ours, theirs = headers[first], headers[second]
        same_publisher = any({first, second} <= names for names in find_publishers(headers, together))
        if same_publisher or len(ours & theirs) >= HALF * len(ours | theirs):
            join(first, second)
    return sorted({tuple(sorted(each)) for each in family.values()})


def find_publishers(names: Iterable[str], together: Sequence[str]) -> list[set[str]]:
    """Return the tables whose names begin with one of the words of each entry."""
    return [{name for name in names if name.startswith(tuple(words.split(",")))} for words in together]


def draw(families: Sequence[Sequence[str]], num_tables: int, seed: int) -> dict[str, list[str]]:
    """Return the unseen and the validation tables."""
    most = sum(map(len, families)) // 10
    order = sorted(families, key=lambda family: hash_text(f"{seed} {family[0]}"))
    left = [family for family in order if len(family) <= most]
    drawn: dict[str, list[str]] = {}
    for split in ("unseen", "validation"):
        taken: list[str] = []
        for family in list(left):
            if len(taken) + len(family) <= num_tables:
                taken += family
                left.remove(family)
        drawn[split] = sorted(taken)
    return drawn


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--together", nargs="*", default=[], metavar="A,B")
    parser.add_argument("--tables", type=int, default=10, help="unseen tables, and validation tables")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--out", type=Path, required=True)
    arguments = parser.parse_args()
    found = {}
    for name, _, folder in (each.partition("=") for each in arguments.folders):
        overlaps = find_overlaps(Path(folder), Path(folder))
        pairs = [tuple(each.rsplit("/", 1)[-1] for each in (pair.training, pair.benchmark)) for pair in overlaps]
        families = group_sisters(read_headers(Path(folder)), pairs, arguments.together)
        found[name] = draw(families, arguments.tables, arguments.seed)
        found[name]["families"] = [list(family) for family in families if len(family) > 1]
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
