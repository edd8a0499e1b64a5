"""Bytes of a file, decompressed as they are read, up to the place where a damaged file ends."""

from __future__ import annotations

import tempfile
import zlib
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
_PIECE_SIZE = 1 << 16
# What zlib calls a stream with the header and the trailer of gzip.
_GZIP = 16 + zlib.MAX_WBITS
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
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise TableError(f"Cannot read {path}: {error.strerror}.") from error
        self.compression = detect_compression(self._file.peek(8))
        read = {None: self._read_plain, "gzip": self._read_gzip, "zstd": self._read_zstd}[self.compression]
        self._blocks = read()
        first: list[bytes] = []
        while sum(map(len, first)) < HEAD_SIZE and (block := next(self._blocks, b"")):
            first.append(block)
        self._first = b"".join(first)
        self.head = self._first[:HEAD_SIZE]
        """The first bytes, at most `HEAD_SIZE`; they come again with the blocks."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield all bytes from the beginning; once only."""
        yield self._first
        yield from self._blocks

    @contextmanager
    def spool(self) -> Iterator[IO[bytes]]:
        """Hold all bytes in a temporary file, for formats that are not read in order."""
        with tempfile.TemporaryFile() as file:
            for block in self:
                file.write(block)
            file.seek(0)
            yield file

    def _read_plain(self) -> Iterator[bytes]:
        try:
            while block := self._file.read(BLOCK_SIZE):
                yield block
        except OSError as error:
            raise TableError(f"Cannot read {self.path}: {error.strerror}.") from error

    def _read_gzip(self) -> Iterator[bytes]:
        inflater = zlib.decompressobj(_GZIP)
        ended = True
        while data := self._file.read(_PIECE_SIZE):
            # Streams may follow each other, and zeros may fill up a file.
            while data := data.lstrip(b"\0") if ended else data:
                before = inflater.copy()
                try:
                    block = inflater.decompress(data, BLOCK_SIZE)
                except zlib.error as error:
                    self.damage = f"gzip stream: {error}"
                    yield _inflate_bytes(before, data)
                    return
                if block:
                    yield block
                ended, data = inflater.eof, inflater.unconsumed_tail
                if ended:
                    data = inflater.unused_data
                    inflater = zlib.decompressobj(_GZIP)
        if not ended:
            self.damage = "gzip stream: the file ends too early"
            yield inflater.flush()

    def _read_zstd(self) -> Iterator[bytes]:
        position = 0
        try:
            with pa.CompressedInputStream(pa.OSFile(str(self.path)), "zstd") as stream:
                while block := stream.read(BLOCK_SIZE):
                    position += len(block)
                    yield block
        except OSError as error:
            self.damage = f"zstd stream: {str(error).lower()}"
            yield self._read_zstd_bytes(position)

    def _read_zstd_bytes(self, position: int) -> bytes:
        """Return what can be read, byte by byte, of the block at `position`, where the stream is damaged."""
        good = bytearray()
        try:
            with pa.CompressedInputStream(pa.OSFile(str(self.path)), "zstd") as stream:
                while position and (block := stream.read(min(position, BLOCK_SIZE))):
                    position -= len(block)
                while byte := stream.read(1):
                    good += byte
        except OSError:
            # The damage itself.
            pass
        return bytes(good)


def _inflate_bytes(inflater: zlib._Decompress, data: bytes) -> bytes:
    """Return what can be inflated, byte by byte, of data that are damaged."""
    good = bytearray()
    try:
        for place in range(len(data)):
            good += inflater.decompress(data[place : place + 1])
    except zlib.error:
        # The damage itself.
        pass
    return bytes(good)
