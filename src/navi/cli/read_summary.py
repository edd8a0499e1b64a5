"""What reading left out, gathered over all tables of a corpus."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from navi.cli.console import Screen
from navi.cli.render import count_things

if TYPE_CHECKING:
    from navi.tables import ReadReport, Table

NUM_PLACES = 3
"""Places shown of each reason; the manifest has them all."""


@dataclass(frozen=True, kw_only=True)
class ReadSummary:
    """Rows dropped, cells lost or changed, and files skipped, by reason."""

    rows: Counter[str]
    """Rows dropped."""
    cells: Counter[str]
    """Cells lost or changed in rows that were kept."""
    places: dict[str, list[str]]
    """The first places of each reason, as `file:line: detail`."""
    skipped: dict[str, list[str]]
    """Files that were not read, by reason."""
    notes: list[str]
    """Things about whole tables."""

    def as_dict(self) -> dict[str, Any]:
        """Return the summary ready for JSON."""
        return {"dropped": self.rows, "cells": self.cells, "places": self.places, "skipped": self.skipped}

    def list_lines(self) -> list[str]:
        """Return the summary as lines to read, nothing where nothing was lost."""
        lines = []
        for kind, counts in (("row", self.rows), ("cell", self.cells)):
            for reason, count in counts.most_common():
                lines.append(f"  {count_things(count, kind)}: {reason}")
                lines += [f"    {place}" for place in self.places.get(reason, [])[:NUM_PLACES]]
        whole = [reason for reason in self.places if reason not in self.rows and reason not in self.cells]
        lines += [f"  {reason}: {place}" for reason in whole for place in self.places[reason][:NUM_PLACES]]
        for reason, paths in self.skipped.items():
            shown = ", ".join(paths[:NUM_PLACES]) + (", …" if len(paths) > NUM_PLACES else "")
            lines.append(f"  {count_things(len(paths), 'file')} skipped: {reason} ({shown})")
        return lines + [f"  {note}" for note in self.notes]


def summarise_reports(reports: Mapping[str, ReadReport], skipped: Iterable[tuple[Path, str]] = ()) -> ReadSummary:
    """Return what reading some tables for a model lost."""
    tables = [vars(each) | {"name": name, "kept": each.kept} for name, each in reports.items()]
    left = [{"path": str(path), "reason": reason} for path, reason in skipped]
    return summarise_manifest({"tables": tables, "skipped": left, "notes": []})


def note_lost(screen: Screen, tables: Iterable[Table]) -> None:
    """Say by the way which rows and cells of some tables were lost: an answer does not show what it lacks."""
    lines = summarise_reports({table.name: table.report for table in tables}).list_lines()
    if lines:
        screen.note("\n".join(["Left out or changed while reading:", *lines]))


def summarise_manifest(manifest: Mapping[str, Any]) -> ReadSummary:
    """Return what the manifest of a corpus says of all its tables."""
    rows, cells = Counter[str](), Counter[str]()
    places: dict[str, list[str]] = defaultdict(list)
    skipped: dict[str, list[str]] = defaultdict(list)
    for table in manifest["tables"]:
        rows.update(table["dropped"])
        cells.update(table["cells"])
        for reason, found in table["places"].items():
            places[reason] += found[: max(0, NUM_PLACES - len(places[reason]))]
    for entry in manifest["skipped"]:
        skipped[entry["reason"]].append(entry["path"])
    lost = [table for table in manifest["tables"] if table["notes"] and not table["kept"] and not table["places"]]
    notes = [f"{table['name']}: {table['notes'][-1]}" for table in lost]
    return ReadSummary(
        rows=rows, cells=cells, places=dict(places), skipped=dict(skipped), notes=[*manifest["notes"], *notes]
    )
