"""Attributes: what a header stands for, from the header itself or from a user's mapping."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from navi.errors import ConfigError

_SEPARATORS = re.compile(r"[\s_./\\\-\u2010-\u2015]+")


@lru_cache(maxsize=1 << 16)
def canonicalise(header: str) -> str:
    """Return the words of a header in small letters, list indices left out.

    >>> canonicalise("actors.0.name"), canonicalise("releaseYear"), canonicalise("IMDB_Rating")
    ('actors name', 'release year', 'imdb rating')
    >>> canonicalise("2015_inflation"), canonicalise("1999")
    ('2015 inflation', '1999')
    """
    header = unicodedata.normalize("NFKC", header)
    path = [part for part in header.split(".") if not (part.isascii() and part.isdigit())]
    words = _SEPARATORS.sub(" ", _split_camel_case(" ".join(path))).casefold().split()
    return " ".join(words) or " ".join(header.casefold().split())


def _split_camel_case(text: str) -> str:
    """Return the text with a space where a word begins: releaseYear, and IMDBRating after the abbreviation."""
    pieces = [text[:1]]
    for before, letter, after in zip(text, text[1:], text[2:] + " ", strict=False):
        begins = letter.isupper() and (before.islower() or ((before.isupper() or before.isdigit()) and after.islower()))
        pieces.append(" " + letter if begins else letter)
    return "".join(pieces)


@dataclass(frozen=True)
class AttributeMapping:
    """A user's own attributes: `tables` (table → header → attribute) go before `headers` (header → attribute)."""

    headers: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def attribute_of(self, table: str, header: str) -> str:
        """Return the attribute of a table's header: the mapping's, else the header made canonical."""
        mapped = self.tables.get(table, {}).get(header) or self.headers.get(header)
        return mapped or canonicalise(header)

    def find_unused(self, columns: Mapping[str, Collection[str]]) -> list[str]:
        """Return one note for each entry that names a table or header not among `columns` (table → headers)."""
        met = set[str]().union(*columns.values())
        notes = [f"no table has the header '{header}'" for header in self.headers if header not in met]
        notes += [f"there is no table '{table}'" for table in self.tables if table not in columns]
        for table in self.tables.keys() & columns.keys():
            unknown = [header for header in self.tables[table] if header not in columns[table]]
            notes += [f"table '{table}' has no header '{header}'" for header in unknown]
        return sorted(f"attributes: {note}" for note in notes)


def load_attributes(mapping: str | Path | AttributeMapping | None) -> AttributeMapping:
    """Return the mapping itself, that of a JSON file, or for None the empty one.

    The file holds `{"headers": {header: attribute}, "tables": {table: {header: attribute}}}` or, flat,
    `{header: attribute}`.
    """
    if mapping is None:
        return AttributeMapping()
    if isinstance(mapping, AttributeMapping):
        return mapping
    try:
        content = json.loads(Path(mapping).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"Cannot read the attribute mapping {mapping}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"The attribute mapping {mapping} is not JSON in UTF-8: {error}.") from error
    return parse_attributes(content, str(mapping))


def parse_attributes(content: Any, place: str) -> AttributeMapping:
    """Return the mapping that a mapping file's content describes; `place` is named in errors."""
    if isinstance(content, dict) and not any(isinstance(entry, dict) for entry in content.values()):
        content = {"headers": content}
    is_known = _holds_dicts(content) and content.keys() <= {"headers", "tables"}
    tables: Any = content.get("tables", {}) if is_known else None
    if not _holds_dicts(tables):
        raise ConfigError(
            f"The attribute mapping {place} has another form than "
            '{"headers": {header: attribute}, "tables": {table: {header: attribute}}} or {header: attribute}.'
        )
    entries = {table: _parse_entries(entry, place) for table, entry in tables.items()}
    return AttributeMapping(_parse_entries(content.get("headers", {}), place), entries)


def _holds_dicts(content: Any) -> bool:
    return isinstance(content, dict) and all(isinstance(entry, dict) for entry in content.values())


def _parse_entries(entries: dict[str, object], place: str) -> dict[str, str]:
    parsed = {}
    for header, attribute in entries.items():
        if not isinstance(attribute, str) or not attribute.strip():
            raise ConfigError(
                f"The attribute mapping {place} gives the header '{header}' the attribute {attribute!r}; "
                "expected a text that is not empty."
            )
        parsed[header] = " ".join(attribute.split())
    return parsed
