"""Tables read from files and frames, flat, with every loss counted and listed."""

from navi.tables.chunk import Chunk, to_arrow
from navi.tables.readreport import ReadConfig, ReadReport, join_reasons
from navi.tables.sources import Paths, Source, Sources, find_sources, list_paths, read_chunks, show_path
from navi.tables.table import (
    TABLE,
    WRITERS,
    Table,
    check_output,
    find_headers,
    find_members,
    name_frames,
    order_headers,
    read_frame,
    read_table,
    read_tables,
    stream_tables,
    write_table,
)

__all__ = [
    "TABLE",
    "WRITERS",
    "Chunk",
    "Paths",
    "ReadConfig",
    "ReadReport",
    "Source",
    "Sources",
    "Table",
    "check_output",
    "find_headers",
    "find_members",
    "find_sources",
    "join_reasons",
    "list_paths",
    "name_frames",
    "order_headers",
    "read_chunks",
    "read_frame",
    "read_table",
    "read_tables",
    "show_path",
    "stream_tables",
    "to_arrow",
    "write_table",
]
