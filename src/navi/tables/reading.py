"""Sources read chunk by chunk, each as the format its content shows."""

from __future__ import annotations

from collections.abc import Iterator

from navi.errors import TableError
from navi.tables.chunk import Chunk
from navi.tables.columnar import read_arrow, read_parquet
from navi.tables.compression import HEAD_SIZE, ByteStream
from navi.tables.config import DEFAULT, ReadConfig
from navi.tables.delimited import read_delimited
from navi.tables.encoding import TextReader
from navi.tables.excel import read_excel
from navi.tables.formats import detect_format
from navi.tables.jsonlines import is_json_lines, read_json_lines
from navi.tables.jsonvalues import read_json_values
from navi.tables.readreport import EMPTY_FILE, MISLABELLED, ReadReport
from navi.tables.source import Source


def read_chunks(source: Source, report: ReadReport, config: ReadConfig = DEFAULT) -> Iterator[Chunk]:
    """Read a table chunk by chunk, entering into `report` what is lost on the way.

    A file that is not what its suffix says is read as what it is, and that is said. A file from which nothing can be
    read is a TableError, and with `config.strict` the first loss is one.
    """
    report.source, report.strict = str(source.path), config.strict
    with ByteStream(source.path) as stream:
        if not stream.head and stream.damage:
            raise TableError(f"Cannot read {source.path}: {stream.damage}, and nothing good comes before that.")
        if stream.compression != source.compression:
            found = f"{stream.compression}-compressed" if stream.compression else "not compressed"
            report.trouble(MISLABELLED, f"the file is {found}, and read so")
        reader = TextReader(stream, config.encoding, report)
        if len(stream.head) < HEAD_SIZE and not reader.head().strip():
            report.trouble(EMPTY_FILE, "there is nothing in it")
            return
        format = detect_format(reader, source.format, source.path)
        if format != {"jsonl": "json"}.get(source.format, source.format):
            report.trouble(MISLABELLED, f"the content is {format}, and read so")
        yield from _read(format, reader, config, report)


def _read(format: str, reader: TextReader, config: ReadConfig, report: ReadReport) -> Iterator[Chunk]:
    if format in ("csv", "tsv"):
        return read_delimited(reader, "," if format == "csv" else "\t", config, report)
    if format == "json":
        read_json = read_json_lines if is_json_lines(reader.head()) else read_json_values
        return read_json(reader, config, report)
    read_binary = {"parquet": read_parquet, "arrow": read_arrow, "excel": read_excel}[format]
    return read_binary(reader.stream, config, report)
