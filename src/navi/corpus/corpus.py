"""A corpus: tables as segments, on disk, memory-mapped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from navi.backbones import load_tokenizer
from navi.corpus.config import PrepareConfig
from navi.corpus.encoded import Encoded
from navi.corpus.manifest import read_manifest
from navi.corpus.splits import SPLITS
from navi.corpus.storage import read_batch, read_encoded
from navi.errors import CorpusError

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True, kw_only=True)
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

    @classmethod
    def open(cls, path: str | Path) -> Corpus:
        """Open a corpus directory; its arrays are memory-mapped, so this takes no time and no memory."""
        folder = Path(path)
        manifest = read_manifest(folder)
        files: dict[str, dict[str, Any]] = manifest["files"]
        for name, entry in files.items():
            _check_size(folder / name, entry["bytes"])
        batches = {name: read_batch(folder / name) for name in files if name.endswith(".arrow")}
        tables = [table["name"] for table in manifest["tables"] if table["kept"]]
        return cls(
            **vars(read_encoded(batches, tables)),
            path=folder,
            manifest=manifest,
            config=PrepareConfig.from_settings(manifest["settings"]),
            tokenizer=load_tokenizer(folder),
            fingerprint=manifest["fingerprint"],
        )

    def rows_of(self, split: str) -> NDArray[np.int64]:
        """Return the numbers of the rows of a split, ascending.

        `split` is one of `SPLITS`: train, validation, test, unseen.
        """
        if split not in SPLITS:
            raise CorpusError(f"There is no split '{split}'. Expected one of {', '.join(SPLITS)}.")
        return np.flatnonzero(self.row_split == SPLITS.index(split))


def _check_size(file: Path, size: int) -> None:
    found = file.stat().st_size if file.is_file() else None
    if found is None:
        raise CorpusError(f"The corpus lacks {file}. Prepare it again.")
    if found != size:
        raise CorpusError(f"{file} has {found} bytes where {size} were written: it is damaged. Prepare it again.")
