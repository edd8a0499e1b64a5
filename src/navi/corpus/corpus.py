"""A corpus: tables as segments, on disk, memory-mapped, and what it looks like column by column."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from navi.backbones import load_tokenizer
from navi.corpus.arrays import ROLES, SPLITS, Encoded, read_arrays
from navi.corpus.prepareconfig import PrepareConfig
from navi.errors import ConfigError, CorpusError
from navi.files import digest_file, digest_sample, local_folder, read_json, remove_leftovers
from navi.version import VERSION

MANIFEST_FILE, TOKENIZER_FILE, ARRAYS_FOLDER = "corpus.json", "tokenizer.json", "arrays"
FORMAT_VERSION = 2
"""Raised whenever a corpus can no longer be read by an older version."""
MOSTLY_EMPTY, MANY_UNKNOWN, MANY_CUT = 0.1, 0.3, 0.5
"""Below this fill, above this share of [UNK] and above this share of cut cells a column is in trouble."""
LONGEST_EXAMPLE = 60
_UNNAMED = re.compile(r"column_\d+|unnamed(?:: \d+)?", re.IGNORECASE)
_AGAIN = "Prepare the corpus again."


@dataclass(frozen=True, kw_only=True, repr=False)
class Corpus(Encoded):
    """Everything that a model is trained and measured on."""

    path: Path
    """The corpus directory."""
    manifest: dict[str, Any]
    """What the corpus was made from, how, and what was left out."""
    config: PrepareConfig
    """The settings it was prepared with."""
    tokenizer: Tokenizer
    """The tokenizer its tokens come from."""
    fingerprint: str
    """Stands for the content of all files: equal exactly where these are."""

    def __repr__(self) -> str:
        return f"Corpus({str(self.path)!r}: {len(self.tables)} tables, {self.arrays.num_rows} rows)"

    @classmethod
    def open(cls, path: str | Path, *, verify: bool = False) -> Corpus:
        """Open a corpus directory; its arrays are memory-mapped, so this takes little time and no memory.

        Small files are compared with their digests, and pieces of large ones; with `verify`, all bytes of all of them.
        """
        folder = local_folder(Path(path))
        manifest = _read_manifest(folder)
        try:
            for name, entry in manifest["files"].items():
                _check_file(folder / name, entry, verify=verify)
            tables = [table["name"] for table in manifest["tables"] if table["kept"]]
            encoded = Encoded.from_arrays(tables, read_arrays(folder / ARRAYS_FOLDER))
            config = PrepareConfig.from_settings(manifest["settings"])
        except (KeyError, TypeError, AttributeError, ConfigError) as error:
            raise CorpusError(f"Cannot read the corpus in {folder}: {error}. {_AGAIN}") from error
        return cls(
            **vars(encoded),
            path=Path(path),
            manifest=manifest,
            config=config,
            tokenizer=load_tokenizer(folder),
            fingerprint=manifest["fingerprint"],
        )

    def rows_of(self, split: str) -> NDArray[np.int64]:
        """Return the numbers of the rows of a split (train, validation, test or unseen), ascending."""
        if split not in SPLITS:
            raise CorpusError(f"There is no split '{split}'. Expected one of {', '.join(SPLITS)}.")
        return np.flatnonzero(self.row_split == SPLITS.index(split))


def _check_file(file: Path, entry: Mapping[str, Any], *, verify: bool) -> None:
    """Raise unless a file is as it was written."""
    if not file.is_file():
        raise CorpusError(f"The corpus lacks {file}. {_AGAIN}")
    if (found := file.stat().st_size) != (size := entry["bytes"]):
        raise CorpusError(f"{file} has {found} bytes where {size} were written: it is damaged. {_AGAIN}")
    if (digest_file(file) != entry["sha256"]) if verify else (digest_sample(file) != entry["sample"]):
        raise CorpusError(f"{file} is not as it was written: its checksum does not fit. {_AGAIN}")


def _read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a corpus directory, or say why it is none that can be read."""
    if not folder.exists():
        remove_leftovers(folder.parent)  # a run that was to replace it may have been killed on the way
    if not folder.is_dir():
        raise CorpusError(f"No corpus at {folder}: no such directory. `navi prepare PATHS… -o {folder}` makes one.")
    if not (folder / MANIFEST_FILE).is_file():
        is_model = any((folder / name).is_file() for name in ("model.safetensors", "config.json", "navi.json"))
        hint = "; it looks like a model directory" if is_model else ""
        raise CorpusError(
            f"{folder} is not a corpus: it has no {MANIFEST_FILE}{hint}. `navi prepare PATHS… -o CORPUS` makes one."
        )
    manifest = read_json(folder / MANIFEST_FILE, CorpusError, _AGAIN, checksum=True)
    if (version := manifest.get("format_version")) != FORMAT_VERSION:
        raise CorpusError(
            f"{folder} has format version {version}, this is NAVI {VERSION} and reads {FORMAT_VERSION}. "
            "Prepare the corpus again, or use the version that made it."
        )
    return manifest


@dataclass(frozen=True, kw_only=True)
class InspectedColumn:
    """What is known of a column."""

    header: str
    attribute: str
    fill: float
    """Share of the table's rows that have a cell."""
    distinct: int
    """Number of distinct values."""
    entropy: float | None
    """Normalised entropy; None with fewer than two cells that train."""
    role: str
    mean_tokens: float
    """Tokens of a value, on average."""
    unknown: float
    """Share of [UNK] among them."""
    cut: float
    """Share of cells whose value was cut."""
    examples: list[str]
    """The most frequent values."""
    trouble: list[str]
    """What may be wrong: `constant`, `mostly empty` and the like."""


@dataclass(frozen=True, kw_only=True)
class InspectedTable:
    """A table, its columns in the order of its source, and what reading it lost, by reason."""

    name: str
    rows: int
    """Rows in the corpus."""
    columns: list[InspectedColumn]
    read: int
    """Rows in the source."""
    dropped: dict[str, int]
    cells: dict[str, int]
    """Cells lost or changed."""
    beyond: list[str]
    """Headers of the source that the corpus lacks: every row is cut at `max_tokens` before them."""
    splits: dict[str, int]
    places: dict[str, list[str]]
    """Where rows and cells were lost, as `file:line: detail`."""
    notes: list[str]


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What tables or a corpus look like."""

    tables: list[InspectedTable]
    left_out: list[InspectedTable]
    """Tables without a row in the corpus."""
    skipped: list[dict[str, str]]
    """Path of each file that is no table, and the reason."""
    totals: dict[str, int]

    def as_dict(self) -> dict[str, object]:
        """Return everything ready for JSON."""
        return asdict(self)


def inspect_corpus(corpus: Corpus) -> Inspection:
    """Return tables, their columns and the totals of a corpus."""
    tables: list[InspectedTable] = []
    left_out: list[InspectedTable] = []
    for entry in corpus.manifest["tables"]:
        columns: Iterable[int] = ()
        if entry["kept"]:
            columns = range(*np.searchsorted(corpus.arrays.column_table, [len(tables), len(tables) + 1]))
        place = {header: place for place, header in enumerate(entry["headers"])}
        described = [_inspect_column(corpus, column) for column in columns]
        inspected = InspectedTable(
            rows=entry["kept"],
            beyond=entry.get("beyond", []),  # corpora of before say nothing of it
            columns=sorted(described, key=lambda column: place.get(column.header, len(place))),
            **{name: entry[name] for name in ("name", "read", "dropped", "cells", "splits", "places", "notes")},
        )
        (tables if entry["kept"] else left_out).append(inspected)
    manifest = corpus.manifest
    return Inspection(tables=tables, left_out=left_out, skipped=manifest["skipped"], totals=manifest["totals"])


def _inspect_column(corpus: Corpus, column: int) -> InspectedColumn:
    arrays, facts = corpus.arrays, corpus.columns
    header = corpus.headers[arrays.column_header[column]].as_py()
    examples = [corpus.values[value].as_py() for value in facts.examples[column] if value >= 0]
    signs = {
        "unnamed": _UNNAMED.fullmatch(header) is not None,
        "mostly empty": facts.fill[column] < MOSTLY_EMPTY,
        "constant": facts.distinct[column] == 1,
        "all different": facts.entropy[column] == 1,
        "many [UNK]": facts.unknown[column] > MANY_UNKNOWN,
        "often cut": facts.cut[column] > MANY_CUT,
        "no row that trains": facts.entropy_cells[column] == 0,
        # Its diversity does not show: the role is low for want of another cell.
        "one cell that trains": facts.entropy_cells[column] == 1,
    }
    return InspectedColumn(
        header=header,
        attribute=corpus.attributes[arrays.column_attribute[column]].as_py(),
        fill=float(facts.fill[column]),
        distinct=int(facts.distinct[column]),
        entropy=float(facts.entropy[column]) if facts.entropy_cells[column] > 1 else None,
        role=ROLES[arrays.column_role[column]],
        mean_tokens=float(facts.mean_tokens[column]),
        unknown=float(facts.unknown[column]),
        cut=float(facts.cut[column]),
        examples=[text if len(text) <= LONGEST_EXAMPLE else text[: LONGEST_EXAMPLE - 1] + "…" for text in examples],
        trouble=[name for name, holds in signs.items() if holds],
    )
