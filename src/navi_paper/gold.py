"""What people know of a corpus: columns that mean the same, classes of rows, other names of headers."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from navi.errors import ConfigError

PARTS = ("concepts", "labels", "synonyms")
"""The kinds of gold; each is a file beside the tables."""


@dataclass(frozen=True, kw_only=True)
class Gold:
    """Gold for some corpus; an empty part is one that nobody wrote."""

    concepts: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Concept of each (table, header)."""
    labels: Mapping[str, Any] = field(default_factory=dict)
    """Classes, label columns, how to read them, and the columns that give them away."""
    synonyms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Other names of a header, none of which is in the corpus."""

    @classmethod
    def find(cls, prefix: str | Path) -> Gold:
        """Read `PREFIX_concepts.csv`, `PREFIX_labels.json` and `PREFIX_synonyms.json`, those that are there."""
        concepts, labels, synonyms = (
            Path(f"{prefix}_{part}").with_suffix(".csv" if part == "concepts" else ".json") for part in PARTS
        )
        if not any(file.is_file() for file in (concepts, labels, synonyms)):
            raise ConfigError(f"There is no gold at {prefix}: none of {concepts}, {labels}, {synonyms} is a file.")
        return cls(
            concepts=_read_concepts(concepts) if concepts.is_file() else {},
            labels=_read_json(labels) if labels.is_file() else {},
            synonyms={header: tuple(others) for header, others in _read_json(synonyms).items()}
            if synonyms.is_file()
            else {},
        )

    @cached_property
    def fingerprint(self) -> str:
        """Stands for all of the gold."""
        parts = [sorted([*place, concept] for place, concept in self.concepts.items()), self.labels, self.synonyms]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def lacks(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of these parts that are empty."""
        return tuple(part for part in parts if not getattr(self, part))


def _read_concepts(file: Path) -> dict[tuple[str, str], str]:
    with file.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        lacking = {"table", "header", "concept"} - set(reader.fieldnames or ())
        if lacking:
            raise ConfigError(f"{file} lacks the columns {', '.join(sorted(lacking))}.")
        return {(line["table"], line["header"]): line["concept"] for line in reader}


def _read_json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ConfigError(f"{file} is not valid JSON: {error}.") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{file} must hold a JSON object, found a {type(found).__name__}.")
    return found
