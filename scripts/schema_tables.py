"""Write tables from hand-written schemas: columns of different organisations that mean the same, by other words.

    python scripts/schema_tables.py scripts/schemas -o FOLDER [--copies 4] [--domains training|kept-out|all]

A file of the folder is a domain, a line of it a concept: its name, and what each of three sources calls it and holds in
it, divided by tabs, `header = value | value | …` or `-`. Each source becomes a table, and `FOLDER.attributes.json` says
which of their columns mean the same. One domain in three is kept out, by a hash of its name: the pair scorer is fitted
and measured on these.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from random import Random

from navi.corpus.hashing import hash_text

SOURCES = "abc"
KEPT_OUT = 3
"""One domain in so many is kept out of training."""
COPY_SHARE = 0.7
"""Share of a table's columns that each of several copies of it has."""

Rows = list[dict[str, str]]


@dataclass(frozen=True)
class SchemaColumn:
    """A column of one source: what it means, what it is called, and some of its values."""

    concept: str
    header: str
    values: tuple[str, ...]


def read_domain(file: Path) -> dict[str, list[SchemaColumn]]:
    """Return the columns of each source of a domain."""
    sources: dict[str, list[SchemaColumn]] = {source: [] for source in SOURCES}
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("#") or not line.strip():
            continue
        concept, *cells = line.split("\t")
        for source, cell in zip(SOURCES, cells, strict=True):
            header, divider, values = cell.partition("=")
            if divider:
                listed = tuple(value.strip() for value in values.split("|") if value.strip())
                sources[source].append(SchemaColumn(concept, header.strip(), listed))
    return sources


def list_domains(folder: Path, which: str = "all") -> dict[str, dict[str, list[SchemaColumn]]]:
    """Return the sources of each domain that is for training, kept out, or of all."""
    files = sorted(folder.glob("*.txt"))
    if which != "all":
        files = [file for file in files if is_kept_out(file.stem) == (which == "kept-out")]
    return {file.stem: read_domain(file) for file in files}


def is_kept_out(domain: str) -> bool:
    """Return whether a domain is kept out of training."""
    return int(hash_text(domain)) % KEPT_OUT == 0


def make_rows(columns: list[SchemaColumn]) -> Rows:
    """Return a table of the columns; what stands in one row has nothing to do with each other."""
    lists = [[(column.header, value) for value in column.values] for column in columns]
    return [dict(cell for cell in cells if cell) for cells in zip_longest(*lists)]


def make_tables(folder: Path, which: str, copies: int) -> Iterator[tuple[str, Rows, dict[str, str]]]:
    """Yield the name, the rows and the attributes of each table."""
    for domain, sources in list_domains(folder, which).items():
        for source, columns in sources.items():
            random = Random(f"{domain} {source}")
            for copy in range(copies):
                chosen = columns if copies == 1 else random.sample(columns, int(COPY_SHARE * len(columns)) + 1)
                attributes = {column.header: f"{column.concept} {domain}".replace("-", " ") for column in chosen}
                yield f"schema_{domain}_{source}{copy}", make_rows(chosen), attributes


def main(options: argparse.Namespace) -> None:
    """Write the tables, and what their columns mean."""
    out = Path(options.out)
    out.mkdir(parents=True)
    mapping = {}
    for name, rows, mapping[name] in make_tables(Path(options.folder), options.domains, options.copies):
        with gzip.open(out / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    out.with_name(f"{out.name}.attributes.json").write_text(json.dumps({"tables": mapping}, ensure_ascii=False))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("-o", "--out", required=True)
    parser.add_argument("--copies", type=int, default=4, help="tables of each source, with other columns each")
    parser.add_argument("--domains", choices=("training", "kept-out", "all"), default="training")
    main(parser.parse_args())
