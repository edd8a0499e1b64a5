"""Pairs of tables to choose how rows are linked on: none of them is among the sets that linking is measured on.

Tables of a folder that share IMDb numbers, TMDb numbers or barcodes, which are hidden, each whole and cut down to the
rows that both have; simulated catalogues; tables cut in two sources that have one member each of what were several (an
actor, a genre), one with the year in the title and the other without a third of its titles; and tables cut into halves
that share nothing, where every link is wrong.
"""

# needs: nothing; benchmarks/linking.py imports it.
from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations, islice
from pathlib import Path

import numpy as np
import pandas as pd

from navi.simulator import SimulatorConfig, simulate
from navi.tables import read_tables

IDENTIFIERS = {  # what a table is called, what the header, and the identifier in a cell
    "imdb": (r"", r"", r"\btt0*(\d{5,8})\b"),
    "tmdb": (r"tmdb\d|tmdb_|_tmdb|themovies", r"^id$", r"^(\d+)$"),
    "barcode": (r"", r"upc|ean|gtin", r"^0*(\d{11,13})$"),
}
LEAST_SHARED, MAX_ROWS, LEAST_ROWS, DRAWN = 20, 2500, 100, 6
SOLVED = r"^jedai_d|^wdc_"
"""Tables of this name are those that linking or matching is measured on."""
HALF, LONG = 0.5, 60
MEMBERS = re.compile(r"\s*[|,;]\s*")
YEAR = re.compile(r"(?:19|20)\d\d")

Pairs = set[tuple[int, int]]


@dataclass
class Set:
    """Two tables, and which of their rows are about the same thing."""

    name: str
    left: pd.DataFrame
    right: pd.DataFrame
    gold: Pairs

    @classmethod
    def load(cls, folder: Path) -> Set:
        """Read a set; cells are texts."""
        gold = pd.read_csv(next(folder.glob("gt.csv*")))
        frames = [
            pd.read_csv(next(folder.glob(f"{name}.csv*")), dtype=str, keep_default_na=False).drop(columns="id")
            for name in gold.columns
        ]
        return cls(folder.name, *frames, set(map(tuple, gold.to_numpy().tolist())))

    @classmethod
    def join(cls, name: str, left: pd.DataFrame, right: pd.DataFrame, thing: str = "_thing") -> Set:
        """Return a set of two tables whose column `thing` says what a row is about, which is hidden."""
        places = {each: number for number, each in enumerate(right[thing])}
        gold = {(number, places[each]) for number, each in enumerate(left[thing]) if each in places}
        return cls(name, left.drop(columns=thing), right.drop(columns=thing), gold)

    def list_texts(self) -> list[list[str]]:
        """Return each row as one text, table after table."""
        return [[" ".join(filter(None, row)) for row in frame.to_numpy().tolist()] for frame in (self.left, self.right)]


def make_sets(folder: Path) -> Iterator[Set]:
    """Yield the pairs of tables; the beginning of a name, up to the colon, is its kind."""
    tables = {
        name: table.text.to_pandas().fillna("").astype(str)
        for name, table in read_tables(folder).items()
        if table.num_rows >= LEAST_ROWS and not re.search(SOLVED, name)
    }
    for kind, (called, header, pattern) in IDENTIFIERS.items():
        yield from share_identifiers(kind, {n: t for n, t in tables.items() if re.search(called, n)}, header, pattern)
    drawn = sorted(tables.items(), key=lambda item: zlib.crc32(item[0].encode()))
    yield from islice(chain.from_iterable(cut_members(*each) for each in drawn), DRAWN)
    yield from (halve(*each) for each in drawn[:DRAWN])
    for seed in range(4):
        first, second = simulate(SimulatorConfig(num_catalogues=2, rows_per_catalogue=300, seed=seed + 1)).catalogues
        frames = [pd.DataFrame(each.rows).assign(_thing=each.row_films) for each in (first, second)]
        yield Set.join(f"simulated: {seed + 1}", *frames)


def share_identifiers(kind: str, tables: dict[str, pd.DataFrame], header: str, pattern: str) -> Iterator[Set]:
    """Yield the pairs of tables that share identifiers, whole, and cut down to the rows that both have."""
    known = {}
    for name, table in tables.items():
        found = {each: table[each].str.extract(pattern)[0] for each in table.columns if re.search(header, each.lower())}
        found = {each: cells for each, cells in found.items() if cells.nunique() > max(LEAST_SHARED, len(table) / 10)}
        if found:
            thing = max(found.values(), key=lambda cells: cells.nunique())
            kept = thing.notna() & ~thing.duplicated()
            known[name] = table.drop(columns=list(found))[kept].assign(_thing=thing[kept])
    for one, other in combinations(sorted(known), 2):
        left, right = (draw_rows(known[name]) for name in (one, other))
        shared = set(left["_thing"]) & set(right["_thing"])
        if len(shared) >= LEAST_SHARED:
            yield Set.join(f"{kind}: {one} {other}", left, right)
            yield Set.join(f"{kind}, all shared: {one} {other}", *(t[t["_thing"].isin(shared)] for t in (left, right)))


def draw_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Return up to so many rows, those of one thing from every table or from none, in a random order."""
    drawn = np.array([zlib.crc32(str(thing).encode()) for thing in table["_thing"]]).argsort()[:MAX_ROWS]
    return table.iloc[np.random.default_rng(len(table)).permutation(drawn)].reset_index(drop=True)


def cut_members(name: str, table: pd.DataFrame) -> Iterator[Set]:
    """Yield a table as two sources that each have other members of its lists, if it has titles, years and lists."""
    title = find_name(table)
    year = next((each for each in table.columns if re.search(r"year|date", each.lower())), None)
    lists = [each for each in table.columns if table[each].str.count(r"[|,;] ?[^\W\d]").mean() > 1 and each != title]
    lists = [each for each in lists if table[each].str.len().mean() < 150][:3]
    if year is None or not lists:
        return
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    drawn = rng.permutation(len(table))[:MAX_ROWS]
    sources = []
    for side, part in enumerate((drawn[: len(drawn) * 3 // 4], rng.permutation(drawn[len(drawn) // 4 :]))):
        rows = table.iloc[part]
        source = pd.DataFrame({"title" if side else "name": rows[title].to_numpy(), "_thing": part})
        for header in lists:
            members = [
                list(filter(None, MEMBERS.split(re.sub(r"[\[\]\"']", "", cell)))) or [""] for cell in rows[header]
            ]
            source[header] = [each[rng.integers(len(each))] for each in members]
        if side:
            source["title"] = [
                f"{each} ({found.group()})" if (found := YEAR.search(when)) else each
                for each, when in zip(source["title"], rows[year], strict=True)
            ]
        else:
            source.loc[rng.random(len(source)) < 1 / 3, "name"] = ""
        sources.append(source)
    yield Set.join(f"members: {name}", *sources)


def find_name(table: pd.DataFrame) -> str:
    """Return the header of what names a row: of the columns with words and no more than that, the most distinct."""
    words = [each for each in table.columns if table[each].str.contains(r"[^\W\d]{2}").mean() > HALF]
    names = [
        each for each in words if table[each].str.len().mean() < LONG and not table[each].str.contains("://").any()
    ]
    return max(names or table.columns, key=lambda each: table[each].nunique())


def halve(name: str, table: pd.DataFrame) -> Set:
    """Return two halves of a table that share no row."""
    table = table.drop_duplicates(find_name(table))
    drawn = np.random.default_rng(0).permutation(len(table))[: MAX_ROWS // 2]
    left, right = (table.iloc[drawn[side::2]].reset_index(drop=True) for side in (0, 1))
    return Set(f"nothing shared: {name}", left, right, set())
