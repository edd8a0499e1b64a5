"""What is true of simulated catalogues: which headers mean the same, what the gaps held, which rows are one film."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from navi.errors import TableError


@dataclass(kw_only=True)
class Truth:
    """The truth about some catalogues; tables and headers are named as a reader of their files names them.

    A row is counted from 0 in the order of its file, the header of a text table not among the rows.
    """

    concepts: dict[tuple[str, str], str] = field(default_factory=dict)
    """What a header of a table means."""
    gaps: dict[tuple[str, int, str], str] = field(default_factory=dict)
    """The text that an empty cell (table, row, header) would have held."""
    films: dict[str, list[int]] = field(default_factory=dict)
    """For each table, the film each row is about."""
    first_place: dict[str, int] = field(default_factory=dict)
    """For each table, the line or record that its row 0 stands in: 2 below a line of headers, else 1."""

    def concept_of(self, table: str, header: str) -> str | None:
        """What a header means, None if the table has no such; later members of a list mean what the first does.

        >>> Truth(concepts={("reelbase", "cast.0.name"): "actor"}).concept_of("reelbase", "cast.7.name")
        'actor'
        """
        found = self.concepts.get((table, header))
        return found or self.concepts.get((table, _first_member(header)))

    def shared_rows(self, table: str, other: str) -> list[tuple[int, int]]:
        """The pairs of rows, one of each table, that are about the same film."""
        places = {film: row for row, film in enumerate(self.films[other])}
        return [(row, places[film]) for row, film in enumerate(self.films[table]) if film in places]

    def save(self, path: str | Path) -> None:
        """Write the truth as JSON; keep it out of the catalogues' folder, or it is read as one more table."""
        concepts: dict[str, dict[str, str]] = defaultdict(dict)
        for (table, header), concept in self.concepts.items():
            concepts[table][header] = concept
        gaps: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
        for (table, row, header), text in self.gaps.items():
            gaps[table].append((row, header, text))
        content = {"concepts": concepts, "gaps": gaps, "films": self.films, "first_place": self.first_place}
        Path(path).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Truth:
        """Read what `save` wrote."""
        try:
            content: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls(
                concepts={
                    (t, header): c for t, headers in content["concepts"].items() for header, c in headers.items()
                },
                gaps={(t, row, header): text for t, gaps in content["gaps"].items() for row, header, text in gaps},
                films=content["films"],
                first_place=content["first_place"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise TableError(f"Cannot read {path} as a truth: {error}. Expected what Truth.save writes.") from error


def _first_member(header: str) -> str:
    return ".".join("0" if part.isdecimal() else part for part in header.split("."))


def columns_by_concept(truth: Truth) -> dict[str, list[tuple[str, str]]]:
    """The columns (table, header) of each concept: the groups that schema matching should find."""
    ordered = sorted(truth.concepts.items(), key=lambda item: item[1])
    return {concept: [column for column, _ in items] for concept, items in groupby(ordered, key=lambda item: item[1])}
