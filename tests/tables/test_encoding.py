import codecs
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.tables.compression import HEAD_SIZE, ByteStream
from navi.tables.encoding import MAX_LINE, TextReader, detect_encoding
from navi.tables.readreport import TOO_LONG, WRONG_ENCODING, ReadReport


def read(path: Path, data: bytes, encoding: str | None = None, **settings: bool) -> tuple[str, ReadReport]:
    path.write_bytes(data)
    losses = ReadReport(source="f")
    with ByteStream(path) as stream:
        reader = TextReader(stream, encoding, losses)
        return "".join(block.text for block in reader.read_lines(**settings)), losses


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"plain", "utf-8"),
        ("café".encode(), "utf-8"),
        (codecs.BOM_UTF8 + b"a", "utf-8"),
        ("café".encode("utf-16"), "utf-16-le"),
        ("café".encode("utf-32"), "utf-32-le"),
        (codecs.BOM_UTF16_BE + "café".encode("utf-16-be"), "utf-16-be"),
        ("title,year\n".encode("utf-16-le"), "utf-16-le"),
        ("title,year\n".encode("utf-16-be"), "utf-16-be"),
        ("café".encode("cp1252"), "cp1252"),
        (b"one \0 NUL in a text that is otherwise plain", "utf-8"),
    ],
)
def test_the_encoding_is_told_by_the_first_bytes(data, encoding):
    assert detect_encoding(data) == encoding


def test_one_wrong_line_does_not_make_a_utf8_file_another():
    assert detect_encoding("né\nnaïve\n".encode() + b"caf\xe9\n") == "utf-8"


def test_a_character_cut_by_the_end_of_the_head_is_no_sign():
    head = ("x" * (HEAD_SIZE - 1) + "é").encode()[:HEAD_SIZE]
    assert detect_encoding(head) == "utf-8"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-16-le", "cp1252"])
def test_encodings_that_are_detected_read_back(path, encoding):
    text = "títle,yéar\nAmélie,2001\n" * 20_000
    found, losses = read(path, text.encode(encoding))
    assert found == text
    assert not losses.cells


@pytest.mark.parametrize("encoding", ["shift_jis", "gb18030", "iso8859-15", "utf-16-be"])
def test_encodings_that_are_told_read_back(path, encoding):
    text = "タイトル,年\n東京物語,1953\n" * 20_000 if encoding != "iso8859-15" else "prix €\n" * 20_000
    found, losses = read(path, text.encode(encoding), encoding)
    assert found == text
    assert losses.notes == [f"read as {encoding}"]


def test_a_line_in_another_encoding_is_mended_and_listed(path):
    found, losses = read(path, "né\nnaïve\n".encode() + b"caf\xe9\n")
    assert found == "né\nnaïve\ncafé\n"
    assert losses.cells == {WRONG_ENCODING: 1}
    assert losses.places == {WRONG_ENCODING: ["f:3: byte e9 is not utf-8, read as 'é'"]}


def test_bytes_that_cp1252_lacks_are_read_as_latin_1(path):
    found, losses = read(path, b"caf\xe9 \x81\n")
    assert found == "café \x81\n"
    assert losses.notes == ["read as cp1252"]
    assert losses.cells == {WRONG_ENCODING: 1}


def test_a_told_encoding_that_is_wrong_is_replaced_and_listed(path):
    found, losses = read(path, b"a\nb\xff\n", "ascii")
    assert found == "a\nb\ufffd\n"
    assert losses.places == {WRONG_ENCODING: ["f:2: not ascii, replaced"]}


def test_utf16_that_ends_within_a_character_is_listed(path):
    found, losses = read(path, "a\nb\n".encode("utf-16") + b"c")
    assert found == "a\nb\n\ufffd"
    assert losses.cells == {WRONG_ENCODING: 1}


def test_a_line_too_long_for_a_row_is_dropped_and_the_next_is_read(path):
    found, losses = read(path, b"a\n" + b"x" * (MAX_LINE + (1 << 21)) + b"\nb\n")
    assert found == "a\nb\n"
    assert losses.dropped == {TOO_LONG: 1}
    assert losses.places == {TOO_LONG: ["f:2: more than 16,777,216 bytes"]}


def test_lines_may_end_at_carriage_returns(path):
    text = "a,b\r" * 100_000
    found, _ = read(path, text.encode(), carriage_returns=True)
    assert found == text


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=300), st.integers(1, 400))
def test_pieces_are_the_text_wherever_blocks_end(tmp_path_factory, text, size):
    path = tmp_path_factory.mktemp("pieces") / "file"
    path.write_bytes(("x" + text).encode())

    class Stream(ByteStream):
        def __iter__(self):
            data = self.path.read_bytes()
            return (data[start : start + size] for start in range(0, len(data), size))

    with Stream(path) as stream:
        reader = TextReader(stream, "utf-8", ReadReport(source="f"))
        assert "".join(block.text for block in reader.read_pieces()) == "x" + text
