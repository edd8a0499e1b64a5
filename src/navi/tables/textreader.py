"""Bytes and text of a file: decompressed, decoded, split into lines, up to the place where a damaged file ends."""

from __future__ import annotations

import codecs
import gzip
import re
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any, Self

import pyarrow as pa
from charset_normalizer import from_bytes

from navi.errors import TableError
from navi.tables.readreport import MAX_CONTENT, MAX_LINE, MAX_RATIO, Loss, ReadReport

BLOCK_SIZE, _PIECE_SIZE = 1 << 18, 1 << 14
"""Bytes read at a time, of a plain file and of a compressed one."""
HEAD_SIZE = 1 << 16
"""Bytes that show what a file is."""
COMPRESSION_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Encodings that letters tell apart; those of one family that only a language tells apart are read as its first.
_LEGACY = ["cp1252", "cp1251", "koi8_r", "cp1253", "shift_jis", "euc_jp", "gb18030", "big5", "euc_kr"]

# Letters of UTF-16 that are read one byte out of step, behind a byte too many or too few: a few in a row are no text.
_OUT_OF_STEP = re.compile(
    f"[{''.join(re.escape(chr(byte << 8)) for byte in range(1, 256) if not 0xD8 <= byte < 0xE0)}]{{4,}}"
)
# Bytes that could not be decoded: how Python holds them, or what stands for them.
_WRONG = re.compile("[\udc80-\udcff]+|\ufffd")
_WESTERN = {
    0xDC00 | byte: bytes([byte]).decode("latin-1" if byte in b"\x81\x8d\x8f\x90\x9d" else "cp1252")
    for byte in range(0x80, 0x100)
}


class ByteStream:
    """The bytes of a file without their compression, block by block.

    The compression is what the content shows, whatever the suffix. Where a compressed file is truncated or corrupt the
    stream ends, and `damage` says why and after how many bytes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: str | None = None
        try:
            self._file: Any = path.open("rb")
        except OSError as error:
            raise TableError(f"Cannot read {path}: {error.strerror}.") from error
        head = self._file.peek(8)
        self.compression = next((name for magic, name in COMPRESSION_MAGIC.items() if head.startswith(magic)), None)
        self._blocks = self._read()
        self._first = b""
        while len(self._first) < HEAD_SIZE and (block := next(self._blocks, b"")):
            self._first += block
        self.head = self._first[:HEAD_SIZE]
        """The first bytes, at most `HEAD_SIZE`; they come again with the blocks."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield all bytes from the beginning; once only."""
        yield self._first
        yield from self._blocks

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Give the bytes as a file to be read in any order: a temporary one where this one is compressed."""
        if self.compression is None:
            self._file.seek(0)
            yield self._file
            return
        with tempfile.TemporaryFile() as file:
            for block in self:
                file.write(block)
            file.seek(0)
            yield file

    def _read(self) -> Iterator[bytes]:
        stream, step, size = self._file, BLOCK_SIZE, 0
        if self.compression is not None:
            # What comes with an error is lost, so that little is read at a time.
            step = _PIECE_SIZE
            if self.compression == "gzip":
                stream = gzip.GzipFile(fileobj=stream)
            else:
                stream = pa.CompressedInputStream(pa.OSFile(str(self.path)), "zstd")
        most = max(MAX_CONTENT, MAX_RATIO * self.path.stat().st_size) if self.compression else None
        try:
            while block := stream.read1(step):
                size += len(block)
                if most is not None and size > most:
                    raise TableError(
                        f"Cannot read {self.path}: it decompresses to more than {MAX_RATIO} times its size, {most:,} "
                        "bytes and more. Decompress it yourself, if you trust it."
                    )
                yield block
        except (OSError, EOFError, zlib.error) as error:
            if self.compression is None:
                raise TableError(f"Cannot read {self.path}: {getattr(error, 'strerror', error)}.") from error
            reason = str(error).strip().lower()
            self.damage = f"{self.compression} stream: {reason}, after {size:,} bytes of content"


def detect_encoding(head: bytes) -> str:
    """Return the encoding of text by its first bytes: by a mark, by the zeros of UTF-16, UTF-8, else by its letters."""
    for mark, encoding in _BOMS:
        if head.startswith(mark):
            return encoding
    if b"\0" in head:
        even, odd = head[0::2].count(0), head[1::2].count(0)
        most, least = max(even, odd), min(even, odd)
        beside_feeds = [head[place ^ 1] for place in range(len(head) - 1) if head[place] == 0x0A]
        # Where most line feeds stand alone, some UTF-16 got into another text.
        if most > 0.2 * len(head) and least < 0.1 * most and 2 * beside_feeds.count(0) >= len(beside_feeds):
            return "utf-16-le" if odd > even else "utf-16-be"
    if _is_utf8(head):
        return "utf-8"
    # Letters beyond ASCII stand alone in Western text, and next to each other in all other.
    return _detect_legacy(head) if re.search(rb"[\x80-\xff]{3}", head) else _LEGACY[0]


def _is_utf8(head: bytes) -> bool:
    """Return whether some line of `head` shows UTF-8, or none contradicts it."""
    wrong = False
    lines = head.split(b"\n")
    for number, line in enumerate(lines, 1):
        is_cut = number == len(lines) and len(head) >= HEAD_SIZE
        try:
            codecs.getincrementaldecoder("utf-8")().decode(line, final=not is_cut)
        except UnicodeDecodeError:
            wrong = True
        else:
            if not line.isascii():
                return True
    return not wrong


def _detect_legacy(head: bytes) -> str:
    found = from_bytes(head, cp_isolation=_LEGACY)
    best = found.best()
    if best is None or any(match.encoding == _LEGACY[0] and match.chaos <= best.chaos for match in found):
        return _LEGACY[0]
    return str(best.encoding)


class TextReader:
    """The text of a stream, in blocks of whole lines or in pieces; bytes in another encoding are detail and entered."""

    def __init__(self, stream: ByteStream, encoding: str | None, report: ReadReport) -> None:
        self.stream = stream
        self.encoding = encoding or detect_encoding(stream.head)
        self._report = report

    def head(self) -> str:
        """Return the beginning of the text, without what is wrong in it."""
        return self.stream.head.decode(self.encoding, "ignore").removeprefix("\ufeff")

    def read_pieces(self) -> Iterator[str]:
        """Yield the text in pieces that end anywhere."""
        codec = codecs.lookup(self.encoding)
        if codec.name != "utf-8":
            self._report.note(f"read as {self.encoding}")
        # In these two a wrong byte stands for itself, and can be read as Western text.
        escapes = codec.name in ("utf-8", "cp1252")
        strict, lenient = map(codec.incrementaldecoder, ("strict", "surrogateescape" if escapes else "replace"))
        line, begin = 1, True
        for block in chain(self.stream, [b""]):
            state = strict.getstate()
            try:
                text = strict.decode(block, final=not block)
            except UnicodeDecodeError:
                lenient.setstate(state)
                text = self._replace_wrong(lenient.decode(block, final=not block), line, escapes)
                strict.setstate(lenient.getstate())
            if codec.name.startswith("utf-16"):
                text = self._realign(text, line)
            line += text.count("\n")
            self._report.check_rows(line)
            if begin:
                text = text.removeprefix("\ufeff")
            if text:
                begin = False
                yield text
        if self.stream.damage is not None:
            self._report.trouble(Loss.DAMAGED, self.stream.damage, line)

    def read_lines(self) -> Iterator[tuple[int, str]]:
        """Yield blocks of whole lines, each with the number of its first; a line that damage cut off is dropped.

        Lines end at line feeds, or at carriage returns where there are no others.
        """
        line, rest, size = 1, [""], 0
        for text in self.read_pieces():
            # The last character may be the first half of a Windows line end.
            end = text.rfind("\n") + 1 or text.rfind("\r", 0, -1) + 1
            if end:
                whole = "".join([*rest, text[:end]])
                yield line, whole
                line += whole.count("\n")
                rest, size = [], 0
            rest.append(text[end:])
            size += len(rest[-1])
            if size > MAX_LINE:
                raise self._report.refuse(f"a line has more than {MAX_LINE:,} characters", line)
        if self.stream.damage is None:
            yield line, "".join(rest)
        elif any(rest):
            self._report.drop(Loss.CUT_OFF, line)

    def _realign(self, text: str, line: int) -> str:
        """Read letters that are one byte out of step as what they are, and enter their lines."""
        mended = _OUT_OF_STEP.sub(lambda found: "".join(chr(ord(letter) >> 8) for letter in found[0]), text)
        place = 0
        for found in _OUT_OF_STEP.finditer(text):
            line += mended.count("\n", place, found.start())
            place = found.start()
            detail = f"{self.encoding} out of step, read as it was meant"
            self._report.change(Loss.WRONG_ENCODING, line, detail, 1 + mended.count("\n", *found.span()))
        return mended

    def _replace_wrong(self, text: str, line: int, escapes: bool) -> str:
        """Replace what could not be decoded, and enter it once a line."""
        for number, part in enumerate(text.split("\n"), line):
            if found := _WRONG.search(part):
                detail = f"not {self.encoding}, replaced"
                if escapes:
                    raw = found[0].encode("utf-8", "surrogateescape").hex(" ")
                    detail = f"byte {raw} is not {self.encoding}, read as {found[0].translate(_WESTERN)!r}"
                self._report.change(Loss.WRONG_ENCODING, number, detail)
        return text.translate(_WESTERN)
