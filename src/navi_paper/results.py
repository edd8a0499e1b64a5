"""Finished cells of an evaluation: one line of JSON each, and the arrays that figures are drawn from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from navi.errors import ConfigError
from navi.files import append_line, write_file
from navi.settings import construct

RESULTS_FILE = "results.jsonl"
ARRAYS_FOLDER, MODELS_FOLDER = "arrays", "models"
"""What tasks kept, and the models that were trained here."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What is measured: one task of one model, trained with one seed, on one corpus."""

    corpus: str
    task: str
    model: str
    seed: int

    def __str__(self) -> str:
        return f"{self.corpus}--{self.task}--{self.model}--{self.seed}".replace("/", "_")


@dataclass(frozen=True, kw_only=True)
class Record(Cell):
    """A cell that is done, or that failed."""

    digest: str
    """Stands for all that the figures depend on: settings, corpus and gold."""
    measures: dict[str, float] = field(default_factory=dict)
    error: str | None = None
    """Why there are none."""
    seconds: float = 0.0
    about: dict[str, Any] = field(default_factory=dict)
    """Command, versions, device and the corpus's fingerprint."""

    @property
    def cell(self) -> Cell:
        """The cell alone."""
        return Cell(**{each.name: getattr(self, each.name) for each in fields(Cell)})


class Results:
    """The finished cells in a folder; a later line of a cell takes the place of an earlier one."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._records: dict[Cell, Record] = {}

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Read what is in a folder; a folder without results, or none at all, is an empty beginning."""
        results = cls(folder)
        file = results.folder / RESULTS_FILE
        for number, line in enumerate(_read_lines(file), start=1):
            try:
                record = construct(Record, json.loads(line))
            except (ValueError, RecursionError) as error:
                raise ConfigError(f"{file}:{number} is no result: {error}. Remove the line to go on.") from error
            done = results.find(record.cell, record.digest)
            if done is None or record.error is None:  # another evaluation may have failed where one had done it
                results._records[record.cell] = record
        return results

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records.values())

    def find(self, cell: Cell, digest: str | None = None) -> Record | None:
        """Return the cell's record if it is done (and, where a digest is given, done under the same one)."""
        record = self._records.get(cell)
        if record is None or record.error is not None or digest not in (None, record.digest):
            return None
        return record

    def add(self, record: Record, arrays: dict[str, NDArray[Any]] | None = None) -> None:
        """Keep a record: first its arrays, then its line, so that a line never lacks what it speaks of."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if arrays:
            file = self._name_arrays(record.cell)
            file.parent.mkdir(exist_ok=True)
            with write_file(file) as aside, aside.open("wb") as opened:
                np.savez_compressed(opened, allow_pickle=False, **arrays)
        append_line(self.folder / RESULTS_FILE, json.dumps(asdict(record), ensure_ascii=False))
        self._records[record.cell] = record

    def keeps_arrays(self, cell: Cell) -> bool:
        """Return whether a cell kept something beside its figures, and it is here."""
        return self._name_arrays(cell).is_file()

    def load_arrays(self, cell: Cell) -> dict[str, NDArray[Any]] | None:
        """Return what a cell kept; None where it kept nothing."""
        if not self.keeps_arrays(cell):
            return None
        with np.load(self._name_arrays(cell), allow_pickle=False) as kept:
            return dict(kept)

    def _name_arrays(self, cell: Cell) -> Path:
        return self.folder / ARRAYS_FOLDER / f"{cell}.npz"


def _read_lines(file: Path) -> list[str]:
    """Return the lines of a file; one that was cut off while it was written, or is being written, is left out."""
    if not file.is_file():
        return []
    text = file.read_text(encoding="utf-8", errors="replace")
    return text[: text.rfind("\n") + 1].splitlines()
