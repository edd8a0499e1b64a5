"""Frames as column profiles, and what a model directory knows of the columns it was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import narwhals as nw
import numpy as np

from navi.columns import DEFAULT_SCORER, ColumnProfiles, PairScorer, join_profiles, profile_columns
from navi.columns.columns import COLUMNS_FILE
from navi.columns.scorer import SCORER_FILE
from navi.columns.sketches import empty_sketches
from navi.errors import TableError
from navi.tables import read_tables

if TYPE_CHECKING:
    from navi.verbs.navi import Navi

PLACEHOLDER = "-"
"""Stands for the value of a column that has none, so that its header can be read."""


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """What a model directory knows of columns."""

    columns: ColumnProfiles | None
    """Those it was trained on; None in a directory without their profiles."""
    scorer: PairScorer
    """The scorer fitted on them, or the default one."""

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Return the knowledge of a model directory."""
        columns = ColumnProfiles.load(folder) if (folder / COLUMNS_FILE).is_file() else None
        scorer = PairScorer.load(folder) if (folder / SCORER_FILE).is_file() else DEFAULT_SCORER
        return cls(columns=columns, scorer=scorer)


def profile_frames(navi: Navi, frames: Mapping[str, Any], *, rows_per_column: int) -> ColumnProfiles:
    """Return the profile of every column of the tables, those without a single value among them."""
    tables = read_tables(frames, navi.read_config, keep_empty=True)
    filled = {name: table for name, table in tables.items() if table.num_rows}
    parts = []
    if filled:
        encoded = navi.encode(filled)
        parts.append(profile_columns(navi.runner, encoded, rows_per_column=rows_per_column))
    found = set(zip(parts[0].tables, parts[0].headers, strict=True)) if parts else set()
    empty = {
        name: [header for header in table.headers if (name, header) not in found] for name, table in tables.items()
    }
    for name, headers in empty.items():
        if not headers and not any(table == name for table, _ in found):
            raise TableError(f"The table '{name}' has no columns. Give one with at least one header.")
    if any(empty.values()):
        parts.append(_profile_headers(navi, {name: headers for name, headers in empty.items() if headers}))
    return join_profiles(parts)


def list_headers(frame: Any) -> list[str]:
    """Return the headers of a frame, as written, in their order."""
    if isinstance(frame, Mapping):
        return [str(header) for header in frame]
    if isinstance(frame, list | tuple):
        return list(dict.fromkeys(str(header) for row in frame for header in row))
    names = frame.column_names if hasattr(frame, "column_names") else nw.from_native(frame).columns
    return [str(name) for name in names]


def _profile_headers(navi: Navi, headers: Mapping[str, list[str]]) -> ColumnProfiles:
    """Return the profiles of columns of which only the header is known."""
    encoded = navi.encode({name: [dict.fromkeys(each, PLACEHOLDER)] for name, each in headers.items()})
    profiles = profile_columns(navi.runner, encoded, rows_per_column=1)
    unknown = np.zeros_like(profiles.states["header"])
    states = {name: state if name == "attribute" else unknown for name, state in profiles.states.items()}
    return replace(profiles, sketches=empty_sketches(len(profiles)), states=states)
