"""Column profiles: all that is known of each column, made from a model and some rows, kept as one Arrow file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from navi.columns.bags import Bags
from navi.columns.sketches import BAGS, Sketches, join_sketches, sketch_columns
from navi.columns.states import STATES, average_states, choose_rows
from navi.corpus import Encoded
from navi.errors import ModelError

if TYPE_CHECKING:
    from navi.model.runner import Runner

# Shape suffixes: K columns, D hidden size.

COLUMNS_FILE = "columns.arrow"
FORMAT = "1"

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class ColumnProfiles:
    """What is known of K columns."""

    tables: tuple[str, ...]
    """(K,) table of each column."""
    headers: tuple[str, ...]
    """(K,) header of each column."""
    attributes: tuple[str, ...]
    """(K,) attribute of each column."""
    sketches: Sketches
    """What their values look like."""
    states: dict[str, NDArray[np.float32]]
    """What a model makes of them, (K, D) for each of `STATES`."""

    def __len__(self) -> int:
        return len(self.headers)

    def take(self, columns: Ints) -> ColumnProfiles:
        """Return the profiles of some columns."""
        return ColumnProfiles(
            tables=tuple(self.tables[k] for k in columns),
            headers=tuple(self.headers[k] for k in columns),
            attributes=tuple(self.attributes[k] for k in columns),
            sketches=self.sketches.take(columns),
            states={name: state[columns] for name, state in self.states.items()},
        )

    def save(self, folder: str | Path) -> None:
        """Write the profiles into a model directory."""
        table = pa.table(self._list_columns()).replace_schema_metadata({"format": FORMAT})
        file = str(Path(folder) / COLUMNS_FILE)
        with pa.OSFile(file, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)

    def _list_columns(self) -> dict[str, pa.Array]:
        columns: dict[str, Any] = {
            "table": pa.array(self.tables, pa.string()),
            "header": pa.array(self.headers, pa.string()),
            "attribute": pa.array(self.attributes, pa.string()),
            "cells": pa.array(self.sketches.cells),
            "quantiles": _make_vectors(self.sketches.quantiles),
            "facts": _make_vectors(self.sketches.facts),
        }
        for name in BAGS:
            bags: Bags = getattr(self.sketches, name)
            columns[f"{name}_terms"] = pa.LargeListArray.from_arrays(bags.offsets, pa.array(bags.terms))
            columns[f"{name}_shares"] = pa.LargeListArray.from_arrays(bags.offsets, pa.array(bags.shares))
        for name, state in self.states.items():
            columns[f"state_{name}"] = _make_vectors(state.astype(np.float16))
        return columns

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return the profiles of a model directory."""
        file = Path(folder) / COLUMNS_FILE
        try:
            table = pa.ipc.open_file(pa.memory_map(str(file))).read_all()
        except (OSError, pa.ArrowInvalid) as error:
            raise ModelError(f"Cannot read {file}: {error}. Expected a model directory made by pretraining.") from error
        found = (table.schema.metadata or {}).get(b"format", b"none").decode()
        if found != FORMAT:
            raise ModelError(f"{file} has format {found}, this version reads {FORMAT}. Pretrain again.")
        return cls(
            tables=tuple(table["table"].to_pylist()),
            headers=tuple(table["header"].to_pylist()),
            attributes=tuple(table["attribute"].to_pylist()),
            sketches=_read_sketches(table),
            states={
                name: _read_vectors(table, f"state_{name}").astype(np.float32)
                for name in STATES
                if f"state_{name}" in table.column_names
            },
        )


def profile_columns(
    runner: Runner, encoded: Encoded, rows: Ints | None = None, *, rows_per_column: int = 200, blind: bool = True
) -> ColumnProfiles:
    """Return the profile of each column of `encoded`, in its order, made from the given rows alone; None takes all.

    States are averaged over `rows_per_column` rows of each table, and a few more where a column is sparse. Without
    `blind`, the states with the own header hidden are left out, and with them four of five passes through the model.
    """
    rows = np.arange(encoded.arrays.num_rows) if rows is None else rows
    arrays = encoded.arrays
    chosen = arrays.take_rows(choose_rows(encoded, rows, rows_per_column))
    headers, attributes = encoded.headers.to_pylist(), encoded.attributes.to_pylist()
    return ColumnProfiles(
        tables=tuple(encoded.tables[number] for number in arrays.column_table),
        headers=tuple(headers[number] for number in arrays.column_header),
        attributes=tuple(attributes[number] for number in arrays.column_attribute),
        sketches=sketch_columns(encoded, rows),
        states=average_states(runner, chosen, blind=blind),
    )


def join_profiles(parts: Sequence[ColumnProfiles]) -> ColumnProfiles:
    """Return the profiles of all parts, one part after another, with the states that all of them have."""
    shared = [name for name in STATES if all(name in part.states for part in parts)]
    return ColumnProfiles(
        tables=sum((part.tables for part in parts), ()),
        headers=sum((part.headers for part in parts), ()),
        attributes=sum((part.attributes for part in parts), ()),
        sketches=join_sketches([part.sketches for part in parts]),
        states={name: np.concatenate([part.states[name] for part in parts]) for name in shared},
    )


def _make_vectors(matrix: NDArray[Any]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])


def _read_vectors(table: pa.Table, name: str) -> NDArray[Any]:
    column = table[name].combine_chunks()
    width = column.type.list_size
    vectors: NDArray[Any] = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
    return vectors


def _read_sketches(table: pa.Table) -> Sketches:
    bags = {}
    for name in BAGS:
        terms, shares = (table[f"{name}_{part}"].combine_chunks() for part in ("terms", "shares"))
        bags[name] = Bags(
            offsets=terms.offsets.to_numpy() - terms.offsets[0].as_py(),
            terms=terms.flatten().to_numpy(),
            shares=shares.flatten().to_numpy(),
        )
    return Sketches(
        **bags,
        quantiles=_read_vectors(table, "quantiles"),
        facts=_read_vectors(table, "facts"),
        cells=table["cells"].to_numpy(),
    )
