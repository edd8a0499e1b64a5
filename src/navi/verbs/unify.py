"""Tables joined into one under the unified schema that matching found."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from navi.tables import ReadConfig, Table, read_tables, to_arrow
from navi.verbs.match import Matches

logger = logging.getLogger(__name__)

TABLE_COLUMN, ROW_COLUMN = "_table", "_row"
"""Where each row comes from: its table, and its place in it: the line of a text file, else from 1."""


def unify(frames: Mapping[str, Any], matches: Matches, config: ReadConfig | None = None) -> pa.Table:
    """Return the rows of all tables under the clusters' names, with the columns `_table` and `_row` before them.

    Where several columns of a table are in one cluster, the first that holds something in a row counts, and the log
    says so. Cells are text as read; a row without any cell is left out.
    """
    names = [cluster.name for cluster in matches.clusters]
    tables = read_tables(frames, config or ReadConfig(), keep_empty=True)
    parts = [_unify_table(table, matches, names) for table in tables.values()]
    return pa.concat_tables(parts)


def _unify_table(table: Table, matches: Matches, names: list[str]) -> pa.Table:
    wide = to_arrow(table.chunks)
    rows = np.concatenate([np.zeros(0, np.int64), *(chunk.row_number for chunk in table.chunks)])
    columns = [pa.array([table.name] * len(rows), pa.string()), pa.array(rows)]
    for cluster in matches.clusters:
        here = [column.header for column in cluster.columns if column.table == table.name]
        sources = [wide[header] for header in wide.column_names if header in here]
        if len(sources) > 1:
            many = ", ".join(here)
            logger.warning("%s: '%s' takes the first of %s that holds something.", table.name, cluster.name, many)
        columns.append(pc.coalesce(*sources) if sources else pa.nulls(len(rows), pa.string()))
    return pa.table(columns, names=[TABLE_COLUMN, ROW_COLUMN, *names])
