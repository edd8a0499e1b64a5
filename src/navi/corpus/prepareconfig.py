"""The settings of a corpus, the attributes that headers stand for among them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypedDict

from navi.errors import ConfigError
from navi.files import read_json
from navi.settings import check_bounds, find_misfit, override
from navi.tables import ReadConfig

_EXPECTED = 'Expected {"headers": {header: attribute}, "tables": {table: {header: attribute}}} or {header: attribute}.'
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


class _MappingFile(TypedDict, total=False):
    headers: dict[str, str]
    tables: dict[str, dict[str, str]]


def load_attributes(mapping: str | Path | AttributeMapping | None) -> AttributeMapping:
    """Return the mapping itself, that of a JSON file, or for None the empty one.

    The file holds `{"headers": {header: attribute}, "tables": {table: {header: attribute}}}` or, flat,
    `{header: attribute}`.
    """
    if mapping is None:
        return AttributeMapping()
    if isinstance(mapping, AttributeMapping):
        return mapping
    return parse_attributes(read_json(Path(mapping), ConfigError, _EXPECTED), str(mapping))


def parse_attributes(content: Any, place: str) -> AttributeMapping:
    """Return the mapping that a mapping file's content describes; `place` is named in errors."""
    if isinstance(content, dict) and not any(isinstance(entry, dict) for entry in content.values()):
        content = {"headers": content}
    misfit = find_misfit(content, _MappingFile)
    if misfit is None and (unknown := sorted(content.keys() - {"headers", "tables"})):
        misfit = f"'{unknown[0]}' is not known"
    if misfit is not None:
        raise ConfigError(f"Cannot read the attribute mapping {place}: {misfit}. {_EXPECTED}")
    return AttributeMapping(
        _strip_entries(content.get("headers", {}), place),
        {table: _strip_entries(entries, place) for table, entries in content.get("tables", {}).items()},
    )


def _strip_entries(entries: dict[str, str], place: str) -> dict[str, str]:
    stripped = {header: " ".join(attribute.split()) for header, attribute in entries.items()}
    if empty := [header for header, attribute in stripped.items() if not attribute]:
        raise ConfigError(f"The attribute mapping {place} gives the header '{empty[0]}' an attribute without a letter.")
    return stripped


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """How tables become a corpus."""

    backbone: str | Path = "minilm"
    """Whose tokenizer is used: a known name, a folder or a hub name."""
    seed: int = 0
    """Decides the splits, the sampling and the unseen tables."""
    attributes: str | Path | AttributeMapping | None = None
    """A JSON file (or mapping) with the attributes of headers; None makes each header canonical."""
    max_value_tokens: int = 20
    """Values are cut at this many tokens."""
    max_header_tokens: int = 20
    """Headers and attributes are cut at this many tokens."""
    max_tokens: int = 1024
    """A row keeps its first whole segments up to this many tokens."""
    max_unknown_share: float | None = 0.3
    """A text field with a larger share of [UNK] is bad; None switches the vocabulary check off."""
    max_bad_share: float = 0.3
    """A table with a larger share of bad fields is left out."""
    largest_tables: int | None = None
    """Keep this many tables, those with the most rows; None keeps all."""
    total_rows: int | None = None
    """Sample the tables down, in proportion, to this many rows in all; None keeps all."""
    unseen_tables: int | tuple[str, ...] = 0
    """Tables kept out of training whole: their names, or how many."""
    validation_tables: int | tuple[str, ...] = 0
    """Tables kept out of training whole, on which settings are chosen: their names, or how many."""
    validation_share: float = 0.1
    """Share of each table's rows in the split `validation`."""
    test_share: float = 0.1
    """Share of each table's rows in the split `test`."""
    normalise: str = "rows"
    """What a column's entropy is divided by: the log of its filled `rows` or of its `distinct` values."""
    theta_low: float = 0.05
    """Quantile of a table's entropies up to which a column is low."""
    theta_high: float = 0.95
    """Quantile of a table's entropies from which a column is high."""
    workers: int | None = None
    """Number of processes; None takes one a core, or none beside this one for little input."""
    read: ReadConfig = field(default_factory=ReadConfig)
    """How files are read; its `strict` makes every loss an error."""

    def __post_init__(self) -> None:
        check_bounds(self, "max_value_tokens", "max_header_tokens", "largest_tables", "total_rows", "workers", least=1)
        shares = ("max_unknown_share", "max_bad_share", "validation_share", "test_share", "theta_low", "theta_high")
        check_bounds(self, *shares, least=0, most=1)
        longest = self.max_header_tokens + self.max_value_tokens + 3
        if self.max_tokens < longest:
            raise ConfigError(f"max_tokens must hold one whole segment, {longest} tokens, got {self.max_tokens}.")
        if self.validation_share + self.test_share >= 1:
            raise ConfigError(
                "validation_share + test_share must leave rows to train on, "
                f"got {self.validation_share} + {self.test_share}."
            )
        if self.theta_low > self.theta_high:
            raise ConfigError(f"theta_low must be at most theta_high, got {self.theta_low} > {self.theta_high}.")
        if self.normalise not in ("rows", "distinct"):
            raise ConfigError(f"normalise must be one of rows, distinct, got '{self.normalise}'.")
        for name in ("unseen_tables", "validation_tables"):
            if isinstance(value := getattr(self, name), int) and value < 0:
                raise ConfigError(f"{name} must be at least 0, got {value}.")

    def as_settings(self) -> dict[str, Any]:
        """Return what decides a corpus's content, ready for JSON: the mapping spelled out, the workers left out."""
        attributes = load_attributes(self.attributes)
        settings = asdict(replace(self, backbone=str(self.backbone), attributes=attributes))
        del settings["workers"]
        return settings

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> PrepareConfig:
        """Return the config that `as_settings` described."""
        attributes = parse_attributes(settings["attributes"], "of the corpus")
        others = {name: value for name, value in settings.items() if name != "attributes"}
        return override(cls(attributes=attributes), others)
