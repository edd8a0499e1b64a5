"""Bytes of a file, decompressed as they are read, up to the place where a damaged file ends."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import pyarrow as pa

from navi.errors import TableError

BLOCK_SIZE = 1 << 20
"""Bytes read at a time."""
HEAD_SIZE = 1 << 16
"""Bytes looked at to tell what a file is."""
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


def detect_compression(head: bytes) -> str | None:
    """Tell the compression of a file by its first bytes."""
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


class ByteStream:
    """The bytes of a file without their compression, block by block.

    The compression is what the content shows, whatever the suffix. Where a compressed file is truncated or corrupt the
    stream ends after the last good byte, and `damage` says why.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: str | None = None
        self._position = 0
        try:
            with path.open("rb") as file:
                self.compression = detect_compression(file.read(8))
            self._stream = self._open()
        except OSError as error:
            raise TableError(f"Cannot read {path}: {error.strerror or error}.") from error
        self.head = b""
        """The first bytes, at most `HEAD_SIZE`; they come again with the blocks."""
        self.head = self._read(HEAD_SIZE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield all bytes from the beginning; once only."""
        block = self.head
        while block:
            yield block
            block = b"" if self.damage else self._read(BLOCK_SIZE)

    @contextmanager
    def spool(self) -> Iterator[IO[bytes]]:
        """Hold all bytes in a temporary file, for formats that are not read in order."""
        with tempfile.TemporaryFile() as file:
            for block in self:
                file.write(block)
            file.seek(0)
            yield file

    def _open(self) -> pa.NativeFile:
        file = pa.OSFile(str(self.path), "rb")
        return file if self.compression is None else pa.CompressedInputStream(file, self.compression)

    def _read(self, size: int) -> bytes:
        try:
            block: bytes = self._stream.read(size)
        except OSError as error:
            if self.compression is None:
                raise TableError(f"Cannot read {self.path}: {error}.") from error
            self.damage = f"{self.compression} stream: {error}"
            block = self._rescue(size)
        self._position += len(block)
        return block

    def _rescue(self, size: int) -> bytes:
        """Read byte by byte what a failed read of `size` bytes lost."""
        self._stream.close()
        self._stream = self._open()
        skip = self._position
        good = bytearray()
        try:
            while skip and (block := self._stream.read(min(skip, BLOCK_SIZE))):
                skip -= len(block)
            while len(good) < size and (byte := self._stream.read(1)):
                good += byte
        except OSError:
            # The place of the damage, known to be here.
            pass
        return bytes(good)
