"""Nested settings put over a dataclass, with every key and type checked."""

from __future__ import annotations

import types
import typing
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, cast

from navi.errors import ConfigError

Config = TypeVar("Config")


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
            changed[key] = _check_type(full_name, value, kinds[key])
    replaced: Any = replace(base, **changed)
    return cast("Config", replaced)


def _explain_unknown(full_name: str, key: str, where: str, known: list[str]) -> str:
    near = get_close_matches(str(key), known, n=1, cutoff=0.5)
    hint = f"Did you mean '{where}{near[0]}'?" if near else f"Known here are {', '.join(known)}."
    return f"Unknown setting '{full_name}'. {hint}"


def _check_type(name: str, value: Any, kind: Any) -> Any:
    """Return the value, an int as a float where one is wanted; anything else must be of the annotated type."""
    if not _fits(value, kind):
        raise ConfigError(f"{name} must be {_describe(kind)}, got {value!r}.")
    return float(value) if type(value) is int and not _fits_exactly(value, kind) else value


def _fits(value: Any, kind: Any) -> bool:
    return _fits_exactly(value, kind) or (type(value) is int and _fits_exactly(float(value), kind))


def _fits_exactly(value: Any, kind: Any) -> bool:
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return any(_fits_exactly(value, member) for member in typing.get_args(kind))
    if typing.get_origin(kind) is Literal:
        return value in typing.get_args(kind)
    return type(value) is kind


def _describe(kind: Any) -> str:
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return " or ".join(_describe(member) for member in typing.get_args(kind))
    if typing.get_origin(kind) is Literal:
        return "one of " + ", ".join(repr(choice) for choice in typing.get_args(kind))
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text", types.NoneType: "none"}
    return names.get(kind, str(kind))
