"""A row written by hand, as `title=Alien, year=1979`."""

from __future__ import annotations

import json
import re
from typing import Any

from navi.errors import ConfigError

_QUOTED = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
# A quote opens only where a header or a value begins: the one in `Don't Look Now` is a letter like any other.
_PIECE = re.compile(rf"(?:(?:^|(?<=[=,]))\s*(?:{_QUOTED})|[^,])*")
_CELL = re.compile(rf"\s*({_QUOTED}|[^=\"']+?)\s*=\s*(.*?)\s*", re.DOTALL)
EXAMPLE = "title=Alien, year=1979"


def parse_like(text: str) -> dict[str, Any]:
    r"""Return the cells of a row that a user wrote.

    Cells stand between commas; a comma without a header after it belongs to the value before. Quotes keep commas and
    equals signs together. A JSON object is taken as it is.

    >>> parse_like("title=Alien, year=1979")
    {'title': 'Alien', 'year': '1979'}
    >>> parse_like("title=Crouching Tiger, Hidden Dragon, 'made in'=\"China = Taiwan\"")
    {'title': 'Crouching Tiger, Hidden Dragon', 'made in': 'China = Taiwan'}
    """
    if text.lstrip().startswith("{"):
        return _parse_json(text)
    pieces: list[str] = []
    for piece in _split(text):
        if _CELL.fullmatch(piece) or not pieces:
            pieces.append(piece)
        else:
            pieces[-1] += f",{piece}"
    cells: dict[str, Any] = {}
    for piece in pieces:
        found = _CELL.fullmatch(piece)
        if not found:
            raise ConfigError(f"Cannot read {piece.strip()!r} as a cell: expected header=value, such as {EXAMPLE}.")
        cells[_unquote(found[1])] = _unquote(found[2])
    return cells


def _split(text: str) -> list[str]:
    """Return what stands between the commas that are not quoted."""
    pieces, place = [], 0
    while place <= len(text):
        found = _PIECE.match(text, place)
        assert found is not None
        pieces.append(found[0])
        place = found.end() + 1
    return pieces


def _unquote(text: str) -> str:
    if re.fullmatch(_QUOTED, text):
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text


def _parse_json(text: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"Cannot read {text!r} as a JSON object: {error}. Write it as {EXAMPLE}.") from error
    if not isinstance(row, dict):
        raise ConfigError(f"Expected a JSON object, found {text!r}. Write it as {EXAMPLE}.")
    return row
