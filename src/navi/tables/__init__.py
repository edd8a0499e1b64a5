"""Tables read from files and frames, flat, with every loss counted and listed."""

from navi.tables.chunk import Chunk
from navi.tables.config import ReadConfig
from navi.tables.frames import read_frame
from navi.tables.losses import Losses
from navi.tables.reading import read_chunks
from navi.tables.source import Source, Sources, find_sources
from navi.tables.wide import to_arrow

__all__ = [
    "Chunk",
    "Losses",
    "ReadConfig",
    "Source",
    "Sources",
    "find_sources",
    "read_chunks",
    "read_frame",
    "to_arrow",
]
