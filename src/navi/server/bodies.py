"""Tables in the bodies of requests and answers: JSON, or Arrow IPC streams."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from navi.errors import TableError

JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"
MAX_NAME = 200
"""Characters of a table's name."""

Frames = dict[str, Any]


def read_body(body: bytes, kind: str) -> Frames:
    """Return the tables of a body by name: lists of dictionaries, or Arrow tables."""
    frames = _read_arrow(body) if kind == ARROW else _read_json(body)
    for name in frames:
        if len(name) > MAX_NAME:
            raise TableError(f"The name of a table has {len(name)} characters. It may have {MAX_NAME}.")
    return frames


def _read_json(body: bytes) -> Frames:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise TableError(f"The body is not JSON: {error}.") from error
    expected = 'Expected {"rows": [{"title": "Alien"}]} or {"tables": {"films": [{"title": "Alien"}]}}.'
    if not isinstance(content, dict) or len(content) != 1 or not content.keys() <= {"rows", "tables"}:
        raise TableError(f"The body has no tables. {expected}")
    frames = content["tables"] if "tables" in content else {"table": content["rows"]}
    if not isinstance(frames, dict) or not frames:
        raise TableError(f"The body has no tables. {expected}")
    for name, rows in frames.items():
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise TableError(f"The table '{name[:MAX_NAME]}' is not a list of objects. {expected}")
    return frames


def _read_arrow(body: bytes) -> Frames:
    """Return the tables of one stream after the other; the metadata `table` of a schema names each."""
    frames: Frames = {}
    try:
        _refuse_compressed(body)
        source = pa.BufferReader(body)
        while source.tell() < len(body):
            table = pa.ipc.open_stream(source).read_all()
            table.validate(full=True)
            named = (table.schema.metadata or {}).get(b"table", b"").decode()
            name = named or ("table" if source.tell() == len(body) and not frames else f"table {len(frames) + 1}")
            if name in frames:
                raise TableError(f"Two tables are called '{name[:MAX_NAME]}'.")
            for column in table.schema:
                if not (_is_plain(column.type) or pa.types.is_null(column.type)):
                    raise TableError(f"The column '{column.name}' has the type {column.type}. Cast it to a plain one.")
            frames[name] = table
    except (pa.ArrowException, OSError, UnicodeDecodeError, struct.error) as error:
        raise TableError(f"The body is not a stream of Arrow: {error}.") from error
    if not frames:
        raise TableError("The body has no tables.")
    return frames


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether a column of a type takes about as much memory as its bytes: nothing in it is there twice."""
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _is_plain(kind.value_type)
    if types.is_struct(kind):
        return kind.num_fields > 0 and all(_is_plain(kind.field(k).type) for k in range(kind.num_fields))
    texts = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary, types.is_decimal)
    return bool((types.is_primitive(kind) and kind.bit_width > 0) or any(check(kind) for check in texts))


def _refuse_compressed(body: bytes) -> None:
    """Refuse streams whose buffers are compressed: a few bytes could become any number."""
    source = pa.BufferReader(body)
    while source.tell() < len(body):
        try:
            message = pa.ipc.read_message(source)
        except EOFError:  # the end of one stream; another may follow
            continue
        header = _follow(message.metadata, _read_offset(message.metadata, 0), 2)
        if message.type == "dictionary":
            raise TableError("The body has columns of dictionaries (categories). Cast them to text.")
        if message.type == "record batch" and header is not None and _find_field(message.metadata, header, 3):
            raise TableError("The body has compressed buffers. Write the stream without compression.")


def _read_offset(buffer: pa.Buffer, at: int) -> int:
    return at + int(struct.unpack_from("<I", buffer, at)[0])


def _find_field(buffer: pa.Buffer, table: int, number: int) -> int:
    """Return where a field of a table of a flatbuffer stands in it; 0 where it is not there."""
    vtable = table - int(struct.unpack_from("<i", buffer, table)[0])
    size = struct.unpack_from("<H", buffer, vtable)[0]
    at = 4 + 2 * number
    return int(struct.unpack_from("<H", buffer, vtable + at)[0]) if at + 2 <= size else 0


def _follow(buffer: pa.Buffer, table: int, number: int) -> int | None:
    field = _find_field(buffer, table, number)
    return _read_offset(buffer, table + field) if field else None


def write_body(table: pa.Table, kind: str) -> bytes:
    """Return a table as an Arrow stream, or as JSON: `{"rows": […]}`."""
    if kind == ARROW:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return bytes(sink.getvalue())
    return write_json({"rows": table.to_pylist()})


def write_json(content: Mapping[str, Any]) -> bytes:
    """Return JSON in which figures that are not finite are null."""
    try:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, default=str)
    except ValueError:
        text = json.dumps(_make_finite(content), ensure_ascii=False, default=str)
    return text.encode("utf-8", "replace")


def _make_finite(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {name: _make_finite(each) for name, each in content.items()}
    if isinstance(content, list):
        return [_make_finite(each) for each in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
