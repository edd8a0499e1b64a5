"""Fixtures of the segments stage: a tiny tokenizer, chunks and folders of tables made in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from navi.corpus import PrepareConfig
from navi.tables import Chunk

Row = Mapping[str, str]
# A machine busy with something else must not fail a law.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """A WordPiece tokenizer that knows a few words, ASCII letters and digits, and nothing beyond."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "title", "year", "genre", "drama", "comedy", "the", "film"]
    vocabulary = [*words, *letters, *(f"##{letter}" for letter in letters), *":.,-[]/|"]
    made = Tokenizer(models.WordPiece({word: number for number, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens(words[:5])
    return made


@pytest.fixture(scope="session")
def backbone(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder that holds the tiny tokenizer."""
    folder = tmp_path_factory.mktemp("backbone")
    tokenizer.save(str(folder / "tokenizer.json"))
    return str(folder)


@pytest.fixture(scope="session")
def config(backbone: str) -> PrepareConfig:
    """Default settings with the tiny tokenizer, in one process."""
    return PrepareConfig(backbone=backbone, workers=1)


@pytest.fixture(scope="session")
def make_chunk() -> Callable[[Sequence[Row]], Chunk]:
    """A maker of chunks from rows."""
    return _make_chunk


def _make_chunk(rows: Sequence[Row]) -> Chunk:
    headers = list(dict.fromkeys(header for row in rows for header in row))
    cells = [(number, headers.index(header), value) for number, row in enumerate(rows) for header, value in row.items()]
    return Chunk(
        headers=tuple(headers),
        cell_row=np.array([cell[0] for cell in cells], np.int32),
        cell_header=np.array([cell[1] for cell in cells], np.int32),
        cell_value=pa.array([cell[2] for cell in cells], pa.string()),
        row_number=np.arange(1, len(rows) + 1, dtype=np.int64),
    )


@pytest.fixture(scope="session")
def write_tables() -> Callable[[Path, Mapping[str, Sequence[Row]]], Path]:
    """A writer of tables as JSON lines into a new folder."""
    return _write_tables


def _write_tables(folder: Path, tables: Mapping[str, Sequence[Row]]) -> Path:
    folder.mkdir(parents=True)
    for name, rows in tables.items():
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


@pytest.fixture
def films(tmp_path: Path) -> Path:
    """A folder with three small tables of films."""
    genres = ["drama", "comedy", "horror"]
    tables = {
        "amber": [{"title": f"film {n}", "genre": genres[n % 3], "year": str(1990 + n % 7)} for n in range(60)],
        "birch": [{"Movie_Title": f"the {n}", "releaseYear": str(1990 + n % 5), "colour": "yes"} for n in range(40)],
        "cedar": [{"title": f"night {n}", "cast.0.name": f"actor {n % 4}"} for n in range(20)],
    }
    return _write_tables(tmp_path / "films", tables)
