"""Text out of bytes: the encoding told by the content, and wrong bytes mended line by line."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from navi.tables.compression import HEAD_SIZE, ByteStream
from navi.tables.readreport import DAMAGED, TOO_LONG, WRONG_ENCODING, ReadReport

MAX_LINE = 1 << 24
"""Bytes of the longest line that is read; a longer one cannot be a row."""
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MEND = "navi.cp1252"


@dataclass(frozen=True)
class TextBlock:
    """Some text of a file."""

    line: int
    """Number of its first line, from 1."""
    text: str
    cut: bool = False
    """Whether the text is a piece of a line that damage to the file cut off."""


def detect_encoding(head: bytes) -> str:
    """Tell the encoding of text by its first bytes: by a mark, by the zeros of UTF-16, else UTF-8 or cp1252."""
    for mark, encoding in _BOMS:
        if head.startswith(mark):
            return encoding
    if b"\0" in head:
        even, odd = head[0::2].count(0), head[1::2].count(0)
        most, least = max(even, odd), min(even, odd)
        if most > 0.2 * len(head) and least < 0.1 * most:
            return "utf-16-le" if odd > even else "utf-16-be"
    return "utf-8" if _is_utf8(head) else "cp1252"


def _is_utf8(head: bytes) -> bool:
    """Tell whether a line of `head` shows UTF-8, or no line contradicts it."""
    wrong = False
    for line in _drop_cut(head).split(b"\n"):
        if line.isascii():
            continue
        try:
            line.decode()
        except UnicodeDecodeError:
            wrong = True
        else:
            return True
    return not wrong


def _drop_cut(head: bytes) -> bytes:
    """Return a head without the character that its end may have cut."""
    return head[: _last_character_end(head)] if len(head) >= HEAD_SIZE else head


def _mend(error: UnicodeError) -> tuple[str, int]:
    """Read the bytes that are wrong in UTF-8 as cp1252, or as Latin-1 where cp1252 has no character."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    wrong = error.object[error.start : error.end]
    return _decode_western(wrong), error.end


def _decode_western(data: bytes) -> str:
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return data.decode("latin-1")


codecs.register_error(_MEND, _mend)


class TextReader:
    """The text of a stream, in blocks of whole lines or in pieces."""

    def __init__(self, stream: ByteStream, encoding: str | None, report: ReadReport) -> None:
        self.stream = stream
        self.encoding = encoding or detect_encoding(stream.head)
        self._report = report
        self._line = 1
        self._rest = b""
        name = codecs.lookup(self.encoding).name
        self._usual = name == "utf-8"
        # In these two any byte can be split from the next; all others are turned into UTF-8 before they are split.
        self._codec = name if name in ("utf-8", "cp1252") else None

    def head(self) -> str:
        """Return the beginning of the text, without what is wrong in it."""
        return self.stream.head.decode(self.encoding, "ignore").removeprefix("\ufeff")

    def read_lines(self, *, carriage_returns: bool = False) -> Iterator[TextBlock]:
        """Yield blocks of whole lines; they end at line feeds, or at carriage returns where a file has no others."""
        for data in self._split_lines(carriage_returns):
            yield self._decode(data)
        yield from self._finish()

    def read_pieces(self) -> Iterator[TextBlock]:
        """Yield blocks that end anywhere, for text whose lines mean nothing."""
        pending = b""
        for block in self._read_bytes():
            pending += block
            end = _last_character_end(pending)
            yield self._decode(pending[:end])
            pending = pending[end:]
        self._rest = pending
        yield from self._finish()

    def _split_lines(self, carriage_returns: bool) -> Iterator[bytes]:
        pending: list[bytes] = []
        size, skipping = 0, False
        for block in self._read_bytes():
            if skipping:
                # What is left of a line that was given up.
                block = block[block.find(b"\n") + 1 or len(block) :]
                skipping = not block
            end = _last_line_end(block, carriage_returns)
            if end:
                yield b"".join([*pending, block[:end]])
                pending, size = [block[end:]], len(block) - end
                continue
            pending.append(block)
            size += len(block)
            if size > MAX_LINE:
                self._report.drop(TOO_LONG, self._line, f"more than {MAX_LINE:,} bytes")
                self._line += 1
                pending, size, skipping = [], 0, True
        self._rest = b"".join(pending)

    def _finish(self) -> Iterator[TextBlock]:
        damage = self.stream.damage
        if self._rest:
            block = self._decode(self._rest)
            yield TextBlock(block.line, block.text, cut=damage is not None)
        if damage is not None:
            self._report.trouble(DAMAGED, damage, self._line)

    def _read_bytes(self) -> Iterator[bytes]:
        """Yield the bytes without a byte order mark, in an encoding whose line end is one byte."""
        if not self._usual:
            self._report.note(f"read as {self.encoding}")
        blocks = iter(self.stream)
        if self._codec is None:
            blocks = self._transcode(blocks)
        first = next(blocks, b"")
        yield first.removeprefix(codecs.BOM_UTF8)
        yield from blocks

    def _transcode(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder(self.encoding)("replace")
        line = 1
        for block in chain(blocks, [b""]):
            text = decoder.decode(block, final=not block)
            if "\ufffd" in text:
                for number, part in enumerate(text.split("\n"), line):
                    if "\ufffd" in part:
                        self._report_encoding(number, f"not {self.encoding}, replaced")
            line += text.count("\n")
            if text:
                yield text.encode("utf-8", "replace")

    def _decode(self, data: bytes) -> TextBlock:
        line = self._line
        self._line += data.count(b"\n")
        codec = self._codec or "utf-8"
        try:
            return TextBlock(line, data.decode(codec))
        except UnicodeDecodeError:
            lines = data.split(b"\n")
            texts = [self._mend_line(text, codec, number) for number, text in enumerate(lines, line)]
            return TextBlock(line, "\n".join(texts))

    def _mend_line(self, data: bytes, codec: str, line: int) -> str:
        try:
            return data.decode(codec)
        except UnicodeDecodeError as error:
            wrong = error.object[error.start : error.end]
            mended = _decode_western(wrong)
            self._report_encoding(line, f"byte {wrong.hex(' ')} is not {codec}, read as {mended!r}")
            return data.decode(codec, _MEND)

    def _report_encoding(self, line: int, detail: str) -> None:
        self._report.change(WRONG_ENCODING, line, detail)


def _last_line_end(block: bytes, carriage_returns: bool) -> int:
    end = block.rfind(b"\n") + 1
    if carriage_returns and not end:
        # The last byte may be the first half of a Windows line end.
        end = block.rfind(b"\r", 0, len(block) - 1) + 1
    return end


def _last_character_end(data: bytes) -> int:
    """Return where the last whole character of UTF-8 ends; data in another encoding is cut nowhere that matters."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            return len(data) - back
        if byte < 0x80:
            break
    return len(data)
