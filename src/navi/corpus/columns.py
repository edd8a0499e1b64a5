"""Arrays that grow piece by piece, in memory or in a scratch file."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray


class Growing(Protocol):
    """An array that is appended to and taken out once, at the end."""

    def append(self, part: NDArray[Any]) -> None:
        """Add a part, cast to the array's own type."""

    def finish(self) -> NDArray[Any]:
        """Return the whole array; nothing can be appended any more."""


MakeGrowing = Callable[[str, DTypeLike], Growing]
"""Makes an empty growing array of a given name and type."""


class GrowingMemory:
    """A growing array that is held in memory."""

    def __init__(self, name: str, dtype: DTypeLike) -> None:
        del name
        self._dtype = np.dtype(dtype)
        self._parts: list[NDArray[Any]] = []

    def append(self, part: NDArray[Any]) -> None:
        """Add a part, cast to the array's own type."""
        self._parts.append(part.astype(self._dtype, copy=False))

    def finish(self) -> NDArray[Any]:
        """Return the whole array."""
        return np.concatenate(self._parts) if self._parts else np.zeros(0, self._dtype)


class ScratchFolder:
    """Makes growing arrays that are written to files of a folder and read back as memory maps."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._made: list[GrowingFile] = []
        self.files: dict[int, Path] = {}
        """Address in memory of each finished array, and the file that holds the same."""

    def make(self, name: str, dtype: DTypeLike) -> Growing:
        """Make an empty growing array in a file of that name."""
        self._made.append(GrowingFile(self._folder / name, dtype, self.files))
        return self._made[-1]

    def remove(self) -> None:
        """Delete the folder; arrays that are still in use stay readable."""
        for growing in self._made:
            growing.close()
        shutil.rmtree(self._folder)


class GrowingFile:
    """A growing array that is written to a scratch file and read back as a memory map."""

    def __init__(self, path: Path, dtype: DTypeLike, files: dict[int, Path]) -> None:
        self._path, self._files = path, files
        self._dtype = np.dtype(dtype)
        self._file = path.open("wb")

    def append(self, part: NDArray[Any]) -> None:
        """Add a part, cast to the array's own type."""
        self._file.write(np.ascontiguousarray(part, self._dtype).data)

    def close(self) -> None:
        """Append no more."""
        self._file.close()

    def finish(self) -> NDArray[Any]:
        """Return the whole array, memory-mapped."""
        self.close()
        if self._path.stat().st_size == 0:
            return np.zeros(0, self._dtype)
        array: NDArray[Any] = np.memmap(self._path, self._dtype, mode="r")
        self._files[array.ctypes.data] = self._path
        return array


class GrowingLists:
    """Lists of different lengths: growing offsets and one growing flat array."""

    def __init__(self, make: MakeGrowing, name: str, dtype: DTypeLike) -> None:
        self._offsets = make(f"{name}.offsets", np.int64)
        self._flat = make(f"{name}.flat", dtype)
        self._offsets.append(np.zeros(1, np.int64))
        self._total = 0

    def append(self, lengths: NDArray[Any], flat: NDArray[Any]) -> None:
        """Add lists of the given lengths, laid out flat."""
        offsets = self._total + np.cumsum(lengths, dtype=np.int64)
        self._total += len(flat)
        self._offsets.append(offsets)
        self._flat.append(flat)

    def finish(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return offsets and the flat array."""
        return self._offsets.finish(), self._flat.finish()


class GrowingTexts:
    """Texts with their tokens: what headers, values and attributes have in common."""

    def __init__(self, make: MakeGrowing, name: str) -> None:
        self._bytes = GrowingLists(make, f"{name}.text", np.uint8)
        self._tokens = GrowingLists(make, f"{name}.tokens", np.int32)

    def append(self, texts: pa.StringArray, lengths: NDArray[np.int64], tokens: NDArray[np.int32]) -> None:
        """Add texts, the number of tokens of each, and these tokens laid out flat."""
        if not len(texts):
            return
        _, offsets, data = texts.buffers()
        places = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
        content = np.frombuffer(data, np.uint8)
        self._bytes.append(np.diff(places), content[places[0] : places[-1]])
        self._tokens.append(lengths, tokens)

    def finish(self) -> tuple[pa.LargeStringArray, NDArray[np.int64], NDArray[np.int32]]:
        """Return the texts, the offsets of their tokens, and the tokens."""
        offsets, content = self._bytes.finish()
        texts = pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(content))
        return texts, *self._tokens.finish()


def gather_lists(
    offsets: NDArray[np.int64], flat: NDArray[Any], which: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the lengths of the chosen lists, and their content laid out flat.

    >>> lengths, content = gather_lists(np.array([0, 2, 3, 6]), np.array([1, 2, 3, 4, 5, 6]), np.array([2, 0]))
    >>> lengths.tolist(), content.tolist()
    ([3, 2], [4, 5, 6, 1, 2])
    """
    lengths = offsets[which + 1] - offsets[which]
    begins = np.cumsum(lengths) - lengths
    places = np.arange(int(lengths.sum())) + np.repeat(offsets[which] - begins, lengths)
    return lengths, flat[places]
