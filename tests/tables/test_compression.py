import gzip
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from navi.errors import TableError
from navi.tables.compression import HEAD_SIZE, ByteStream, detect_compression

TEXT = b"".join(b"line %d of a text that is compressed\n" % number for number in range(60_000))


def compress(name: str, data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, name) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def read(path: Path) -> tuple[bytes, str | None]:
    with ByteStream(path) as stream:
        return b"".join(stream), stream.damage


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


def test_the_compression_is_told_by_the_first_bytes():
    assert detect_compression(gzip.compress(b"a")) == "gzip"
    assert detect_compression(compress("zstd", b"a")) == "zstd"
    assert detect_compression(b"a,b\n") is None


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_compressed_files_read_as_what_was_compressed(path, name):
    path.write_bytes(compress(name, TEXT))
    assert read(path) == (TEXT, None)


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_streams_one_after_the_other_are_read_to_the_end(path, name):
    path.write_bytes(compress(name, TEXT) + compress(name, b"and more\n"))
    assert read(path) == (TEXT + b"and more\n", None)


@pytest.mark.parametrize("name", ["gzip", "zstd"])
@pytest.mark.parametrize("share", [0.5, 0.99])
def test_a_truncated_file_gives_what_was_good_and_says_so(path, name, share):
    data = compress(name, TEXT)
    path.write_bytes(data[: int(len(data) * share)])
    good, damage = read(path)
    assert TEXT.startswith(good)
    assert len(good) > 0.4 * share * len(TEXT)
    assert (
        damage
        == {"gzip": "gzip stream: the file ends too early", "zstd": "zstd stream: truncated compressed stream"}[name]
    )


def test_zeros_that_fill_up_a_gzip_file_are_no_damage(path):
    path.write_bytes(gzip.compress(TEXT) + bytes(200_000) + gzip.compress(b"and more\n") + bytes(10))
    assert read(path) == (TEXT + b"and more\n", None)


def test_a_corrupt_gzip_gives_every_byte_before_the_damage(path):
    deflater = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    # Seven announces a last block of a type that does not exist.
    path.write_bytes(deflater.compress(TEXT) + deflater.flush(zlib.Z_FULL_FLUSH) + b"\x07" + bytes(100))
    assert read(path) == (TEXT, "gzip stream: Error -3 while decompressing data: invalid block type")


def test_all_bytes_of_a_gzip_that_lacks_only_its_trailer_are_read(path):
    path.write_bytes(gzip.compress(TEXT)[:-8])
    good, damage = read(path)
    assert good == TEXT
    assert damage is not None


def test_a_wrong_checksum_is_damage(path):
    data = bytearray(gzip.compress(TEXT))
    data[-6] ^= 0xFF
    path.write_bytes(data)
    good, damage = read(path)
    assert TEXT.startswith(good)
    assert "incorrect data check" in damage


def test_text_behind_the_compressed_stream_is_damage(path):
    path.write_bytes(gzip.compress(TEXT) + b"something else")
    good, damage = read(path)
    assert good == TEXT
    assert "incorrect header check" in damage


def test_the_head_is_seen_before_and_comes_again(path):
    path.write_bytes(TEXT)
    with ByteStream(path) as stream:
        assert stream.head == TEXT[:HEAD_SIZE]
        assert b"".join(stream) == TEXT


def test_a_spooled_stream_is_a_file_that_can_be_read_in_any_order(path):
    path.write_bytes(gzip.compress(TEXT))
    with ByteStream(path) as stream, stream.spool() as file:
        file.seek(100)
        assert file.read(10) == TEXT[100:110]


def test_a_file_that_is_gone_is_one_clear_error(path):
    with pytest.raises(TableError, match=r"Cannot read .*file: No such file or directory"):
        ByteStream(path)


def test_a_folder_in_place_of_a_file_is_one_clear_error(tmp_path):
    with pytest.raises(TableError, match="Is a directory"):
        ByteStream(tmp_path)
