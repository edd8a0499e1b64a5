"""Settings from a TOML file or a dictionary, put over a configuration with every key and type checked."""

from __future__ import annotations

import tomllib
import types
import typing
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from navi.errors import ConfigError

Config = TypeVar("Config")
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


def override(base: Config, settings: dict[str, Any], where: str = "") -> Config:
    """Return a dataclass with some of its fields replaced; a nested dataclass takes a nested dictionary.

    `where` is the section that the settings stand in, for messages.
    """
    assert is_dataclass(base)
    assert not isinstance(base, type)
    known = [item.name for item in fields(base)]
    kinds = typing.get_type_hints(type(base))
    changed: dict[str, Any] = {}
    for key, value in settings.items():
        full_name = f"{where}{key}"
        if key not in known:
            raise ConfigError(_explain_unknown(full_name, key, where, known))
        present = getattr(base, key)
        if is_dataclass(present):
            if not isinstance(value, dict):
                raise ConfigError(f"{full_name} is a section of settings, got {value!r}.")
            changed[key] = override(present, value, f"{full_name}.")
        else:
            changed[key] = _convert(full_name, value, kinds[key])
    replaced: Any = replace(base, **changed)
    return cast("Config", replaced)


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
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, member) for member in members)
    if origin is Literal:
        return value in members
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(entry, members[0]) for entry in value)
    return type(value) is kind


def _describe(kind: Any) -> str:
    origin, members = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_describe(member) for member in members)
    if origin is Literal:
        return "one of " + ", ".join(repr(choice) for choice in members)
    if origin is tuple:
        return f"a list of {_describe(members[0])}"
    return _NAMES.get(kind, str(kind))
