"""Pages as JSON: written plainly, and read back with every field checked."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from navi.errors import ConfigError
from navi.report.page import Page

PAGE_FILE = "page.json"
"""The file of a results folder that holds its page."""
FORMAT = 1
"""The format of these files; goes up when old ones cannot be read any more."""


def save_page(page: Page, folder: str | Path) -> Path:
    """Write a page into a folder, which is made if need be, and return its file."""
    content = {"format": FORMAT, **encode(page)}
    file = Path(folder) / PAGE_FILE
    write_whole(file, json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1))
    return file


def load_page(folder: str | Path) -> Page:
    """Return the page that a results folder holds."""
    file = Path(folder) / PAGE_FILE
    if not file.is_file():
        raise ConfigError(
            f"{folder} holds no {PAGE_FILE}. Expected a folder that `navi demo` or `navi evaluate` wrote."
        )
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"Cannot read {file}: it is not JSON ({error}). Make the results again.") from error
    found = content.pop("format", None) if isinstance(content, dict) else None
    if found != FORMAT:
        raise ConfigError(f"Cannot read {file}: its format is {found}, this version reads {FORMAT}.")
    try:
        page: Page = decode(Page, content, "page")
    except ConfigError as error:
        raise ConfigError(f"Cannot read {file}: {error}") from error
    return page


def write_whole(file: Path, text: str) -> None:
    """Write a file that appears only when it is whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)


def encode(content: Any) -> Any:
    """Return a part of a page as JSON knows it; records say of what kind they are, defaults are left out."""
    if is_dataclass(content) and not isinstance(content, type):
        named = {field.name: getattr(content, field.name) for field in fields(content)}
        said = {name: encode(each) for name, each in named.items() if each != _default(type(content), name)}
        return {"kind": type(content).__name__, **said}
    if isinstance(content, Mapping):
        return {name: encode(each) for name, each in content.items()}
    return [encode(each) for each in content] if isinstance(content, tuple | list) else content


def decode(hint: Any, content: Any, place: str) -> Any:
    """Return what `encode` was given, of the type that is due at that place."""
    if is_dataclass(hint):
        return _decode_record(hint, content, place)
    if isinstance(hint, UnionType):
        return decode(_choose(hint, content, place), content, place)
    kinds = get_args(hint)
    if get_origin(hint) is tuple:
        _expect(isinstance(content, list), place, "a list", content)
        due = kinds[:1] * len(content) if kinds[-1] is Ellipsis else kinds
        _expect(len(due) == len(content), place, f"{len(due)} entries", content)
        return tuple(
            decode(kind, each, f"{place}[{number}]")
            for number, (kind, each) in enumerate(zip(due, content, strict=True))
        )
    if get_origin(hint) is Mapping:
        _expect(isinstance(content, dict), place, "an object", content)
        return {name: decode(kinds[1], each, f"{place}.{name}") for name, each in content.items()}
    _expect(_fits(hint, content), place, NAMES[hint], content)
    return content


def _decode_record(kind: Any, content: Any, place: str) -> Any:
    _expect(_is_kind(kind, content), place, f"a {kind.__name__}", content)
    hints = get_type_hints(kind)
    given = {name: each for name, each in content.items() if name != "kind"}
    for name in given:
        if name not in hints:
            raise ConfigError(f"{place}: a {kind.__name__} has no '{name}'. Expected {', '.join(hints)}.")
    for name in hints:
        if name not in given and _default(kind, name) is MISSING:
            raise ConfigError(f"{place}: a {kind.__name__} needs '{name}'.")
    values = {name: decode(hints[name], each, f"{place}.{name}") for name, each in given.items()}
    try:
        return kind(**values)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error


def _choose(union: UnionType, content: Any, place: str) -> Any:
    """Return the one type of several that the content is of."""
    for kind in get_args(union):
        if _is_kind(kind, content) if is_dataclass(kind) else _fits(get_origin(kind) or kind, content):
            return kind
    names = ", ".join(NAMES.get(get_origin(kind) or kind) or f"a {kind.__name__}" for kind in get_args(union))
    raise ConfigError(f"{place}: expected one of {names}, got {_shorten(content)}.")


def _is_kind(kind: Any, content: Any) -> bool:
    return isinstance(content, dict) and content.get("kind") == kind.__name__


NAMES: dict[Any, str] = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    NoneType: "null",
    tuple: "a list",
    Mapping: "an object",
}
"""What JSON calls our types."""
_OF_JSON: dict[Any, tuple[type, ...]] = {float: (float, int), tuple: (list,), Mapping: (dict,)}


def _fits(hint: Any, content: Any) -> bool:
    # By type, not isinstance: true is not a number here.
    return type(content) in _OF_JSON.get(hint, (hint,))


def _default(kind: Any, name: str) -> Any:
    return next(field.default for field in fields(kind) if field.name == name)


def _expect(is_right: bool, place: str, expected: str, content: Any) -> None:
    if not is_right:
        raise ConfigError(f"{place}: expected {expected}, got {_shorten(content)}.")


def _shorten(content: Any) -> str:
    text = json.dumps(content, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}…"
