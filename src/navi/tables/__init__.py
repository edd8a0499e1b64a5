"""Tables read from files and frames, flat, with every loss counted and listed."""

from navi.tables.chunk import Chunk
from navi.tables.config import ReadConfig
from navi.tables.frames import read_frame
from navi.tables.reading import read_chunks
from navi.tables.readreport import ReadReport
from navi.tables.source import Source, Sources, find_sources
from navi.tables.table import TABLE, Table, find_headers, name_frames, read_table, read_tables, stream_tables
from navi.tables.wide import to_arrow
from navi.tables.writing import WRITERS, check_output, write_table

__all__ = [
    "TABLE",
    "WRITERS",
    "Chunk",
    "ReadConfig",
    "ReadReport",
    "Source",
    "Sources",
    "Table",
    "check_output",
    "find_headers",
    "find_sources",
    "name_frames",
    "read_chunks",
    "read_frame",
    "read_table",
    "read_tables",
    "stream_tables",
    "to_arrow",
    "write_table",
]
