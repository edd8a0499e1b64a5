"""Prepare a folder of tables, and look at what is in it."""

from __future__ import annotations

from catalogues import BACKBONE, FOLDER, make_tables

import navi
from navi.corpus import PrepareConfig, inspect_corpus

corpus = navi.prepare(
    [make_tables()], FOLDER / "inspected", PrepareConfig(backbone=BACKBONE, unseen_tables=1), overwrite=True
)
splits = {split: len(corpus.rows_of(split)) for split in ("train", "validation", "test", "unseen")}
print(f"{len(corpus.tables)} tables, rows by split: {splits}\n")

for table in inspect_corpus(corpus).tables:
    print(f"{table.name}: {table.rows} rows")
    for column in sorted(table.columns, key=lambda column: column.entropy or 0.0):
        print(f"  {column.role:4}  {column.entropy or 0.0:.2f}  {column.header:24}  {column.examples[:1]}")
    print()

print("Rows and cells lost, by reason, with file and line:", corpus.manifest["tables"][0]["places"] or "none")
