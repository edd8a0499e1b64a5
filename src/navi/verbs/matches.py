"""What matching finds: clusters of columns that mean the same, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, order=True)
class Column:
    """A column of a table."""

    table: str
    header: str


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two columns of different tables that were found to mean the same."""

    first: Column
    second: Column
    score: float
    """Probability that both mean the same."""
    headers: float
    """What their headers contributed, as a logarithm of odds: negative speaks against; 0 where one is missing."""
    values: float
    """What their values contributed, likewise."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Columns that mean the same; a column without a match stands alone."""

    name: str
    """The proposed unified name."""
    columns: tuple[Column, ...]
    score: float
    """Mean probability of its pairs; 1 for a column that stands alone."""


@dataclass(frozen=True, kw_only=True)
class Matches:
    """All columns of some tables, in clusters."""

    clusters: tuple[Cluster, ...]
    """Those of most columns first."""
    pairs: tuple[Pair, ...]
    """Every pair of columns of different tables that is in one cluster, the surest first."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain lists and dictionaries, ready for JSON."""
        return asdict(self)

    def as_table(self) -> pa.Table:
        """Return one line a column: name of its cluster, the cluster's number and score, table and header."""
        lines = [
            (cluster.name, number, cluster.score, column.table, column.header)
            for number, cluster in enumerate(self.clusters)
            for column in cluster.columns
        ]
        names = ("name", "cluster", "score", "table", "header")
        types = (pa.string(), pa.int64(), pa.float64(), pa.string(), pa.string())
        return pa.table(
            [pa.array([line[place] for line in lines], kind) for place, kind in enumerate(types)], names=names
        )

    def as_mapping(self) -> dict[str, dict[str, dict[str, str]]]:
        """Return the attribute of every column, in the form that `navi prepare --attributes` takes."""
        tables: dict[str, dict[str, str]] = {}
        for cluster in self.clusters:
            for column in cluster.columns:
                tables.setdefault(column.table, {})[column.header] = cluster.name
        return {"tables": {table: dict(sorted(headers.items())) for table, headers in sorted(tables.items())}}
