"""Settings from a TOML file or a dictionary, and the content of JSON files, with every key and type checked."""

from __future__ import annotations

import math
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from navi.errors import ConfigError

Config = TypeVar("Config")
MATCH_THRESHOLD = 0.35
"""Probability from which columns match, of 0.2 to 0.5, by tables of films and products and by kept-out schemas."""
IMPUTE_CONFIDENCE = 0.6
"""Probability from which an empty cell is filled."""
_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text", types.NoneType: "none"}


def read_settings(file: Path | None) -> dict[str, Any]:
    """Return what a TOML file holds; nothing for no file."""
    if file is None:
        return {}
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read the settings file {file}: {error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not valid TOML: {error}.") from error


def override(base: Config, settings: Any, where: str = "") -> Config:
    """Return a dataclass with some of its fields replaced; a nested dataclass takes a nested dictionary.

    `where` is the section that the settings stand in, for messages.
    """
    assert is_dataclass(base)
    assert not isinstance(base, type)
    if not isinstance(settings, dict):
        raise ConfigError(f"{where.rstrip('.') or 'it'} is a section of settings, got {settings!r}.")
    known = [item.name for item in fields(base)]
    kinds = typing.get_type_hints(type(base))
    changed: dict[str, Any] = {}
    for key, value in settings.items():
        full_name = f"{where}{key}"
        if key not in known:
            raise ConfigError(_explain_unknown(full_name, key, where, known))
        present = getattr(base, key)
        if is_dataclass(present):
            changed[key] = override(present, value, f"{full_name}.")
        else:
            changed[key] = _convert(full_name, value, kinds[key])
    replaced: Any = replace(base, **changed)
    return cast("Config", replaced)


def construct(kind: type[Config], content: Any, **given: Any) -> Config:
    """Return a dataclass made of what JSON holds and of what is `given`, with every key and type checked."""
    assert is_dataclass(kind)
    if not isinstance(content, dict):
        raise ConfigError(f"expected an object, found {str(content)[:60]!r}")
    hints, known = typing.get_type_hints(kind), [item for item in fields(kind) if item.name not in given]
    if unknown := sorted(content.keys() - {item.name for item in known}):
        raise ConfigError(f"'{unknown[0]}' is not known")
    for item in known:
        if item.name not in content and item.default is MISSING and item.default_factory is MISSING:
            raise ConfigError(f"it has no '{item.name}'")
    return kind(**given, **{name: _convert(name, value, hints[name]) for name, value in content.items()})


def check_bounds(
    config: object, *names: str, least: float = -math.inf, most: float = math.inf, above: float = -math.inf
) -> None:
    """Raise `ConfigError` unless these fields, where they are set, lie within bounds.

    >>> check_bounds(types.SimpleNamespace(share=1.5), "share", least=0, most=1)
    Traceback (most recent call last):
    navi.errors.ConfigError: share must lie between 0 and 1, got 1.5.
    """
    rule = f"be at least {least:g}" if most == math.inf else f"lie between {least:g} and {most:g}"
    for name in names:
        value = getattr(config, name)
        if value is not None and not (least <= value <= most and value > above):
            raise ConfigError(f"{name} must {rule if above == -math.inf else f'be more than {above:g}'}, got {value}.")


def _explain_unknown(full_name: str, key: str, where: str, known: list[str]) -> str:
    near = get_close_matches(str(key), known, n=1, cutoff=0.5)
    hint = f"Did you mean '{where}{near[0]}'?" if near else f"Known here are {', '.join(known)}."
    return f"Unknown setting '{full_name}'. {hint}"


def _convert(name: str, value: Any, kind: Any) -> Any:
    """Return a value of the annotated type: an int serves as a float, a list as a tuple, nothing else as another."""
    alternatives: list[Any] = [value]
    if type(value) is int:
        alternatives.append(float(value))
    if isinstance(value, list):
        alternatives.append(tuple(value))
    for alternative in alternatives:
        if _fits(alternative, kind):
            return alternative
    raise ConfigError(f"{name} must be {_describe(kind)}, got {value!r}.")


def _fits(value: Any, kind: Any) -> bool:
    origin, members = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return True
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, member) for member in members)
    if origin is Literal:
        return value in members
    if origin in (tuple, list, Sequence):
        kinds = (tuple, list) if origin is Sequence else origin
        return isinstance(value, kinds) and all(_fits(entry, members[0]) for entry in value)
    if origin in (dict, Mapping):
        return isinstance(value, dict) and all(_fits(entry, members[1]) for entry in value.values())
    return type(value) is kind


def find_misfit(content: Any, kind: Any, name: str = "it") -> str | None:
    """Return where JSON is not of a type, a `TypedDict` with all within it or any other; None if it is.

    >>> class Size(typing.TypedDict):
    ...     rows: int
    >>> find_misfit({"tables": [{"rows": 3}, {"rows": "3"}]}, typing.TypedDict("Sizes", {"tables": list[Size]}))
    "tables[1].rows must be a whole number, found '3'"
    """
    origin, members = typing.get_origin(kind), typing.get_args(kind)
    entries: list[tuple[str, Any, Any]] = []
    if typing.is_typeddict(kind) and isinstance(content, dict):
        if missing := sorted(kind.__required_keys__ - content.keys()):
            return f"{name} has no {missing[0]}"
        before = "" if name == "it" else f"{name}."
        entries = [(f"{before}{key}", content[key], each) for key, each in _hints(kind).items() if key in content]
    elif origin is list and isinstance(content, list):
        entries = [(f"{name}[{place}]", entry, members[0]) for place, entry in enumerate(content)]
    elif origin is dict and isinstance(content, dict):
        entries = [(f"{name}[{key!r}]", entry, members[1]) for key, entry in content.items()]
    elif typing.is_typeddict(kind) or not (_fits(content, kind) or (_is_whole(content) and _fits(0.0, kind))):
        return f"{name} must be {_describe(kind)}, found {str(content)[:60]!r}"
    return next((found for key, entry, each in entries if (found := find_misfit(entry, each, key))), None)


def _is_whole(content: Any) -> bool:
    """Return whether a number serves as a float, too."""
    return type(content) is int and abs(content) < 1 << 53


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _describe(kind: Any) -> str:
    origin, members = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_describe(member) for member in members)
    if origin is Literal:
        return "one of " + ", ".join(repr(choice) for choice in members)
    if origin in (tuple, list, Sequence):
        return f"a list of {_describe(members[0])}"
    if origin in (dict, Mapping) or typing.is_typeddict(kind):
        return "an object"
    return _NAMES.get(kind, getattr(kind, "__name__", str(kind)))
