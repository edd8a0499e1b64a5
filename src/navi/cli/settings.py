"""Settings gathered for a verb: presets, then a TOML file, then flags."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from navi.errors import ConfigError

if TYPE_CHECKING:
    from navi.corpus import PrepareConfig
    from navi.training import PretrainConfig

PREPARE = "prepare"
"""The section of a settings file that `navi prepare` reads; the others are `navi pretrain`'s."""
_NOT_SETTINGS = ("corpus", "number of processes")


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


def drop_unset(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags that were given."""
    return {name: value for name, value in flags.items() if value is not None}


def make_prepare_config(file: Path | None, **flags: Any) -> PrepareConfig:
    """Return the settings of `navi prepare`: the file's section [prepare], then flags."""
    from navi.corpus import PrepareConfig

    content = read_settings(file)
    section = {name: content[name] for name in ("backbone",) if name in content} | content.get(PREPARE, {})
    if not section:
        return _replace_prepare(PrepareConfig(), flags)
    from navi.training.settings import override

    unseen = section.pop("unseen_tables", None)
    config = override(PrepareConfig(), section, f"{PREPARE}.")
    return _replace_prepare(config, {"unseen_tables": _check_unseen(unseen)} | drop_unset(flags))


def _replace_prepare(config: PrepareConfig, flags: Mapping[str, Any]) -> PrepareConfig:
    given = drop_unset(flags)
    if given.pop("strict", False):
        given["read"] = replace(config.read, strict=True)
    return replace(config, **given)


def parse_unseen(text: str | None) -> int | tuple[str, ...] | None:
    """Return how many tables are to stay unseen, or their names.

    >>> parse_unseen("3"), parse_unseen("reelbase, filmhub")
    (3, ('reelbase', 'filmhub'))
    """
    if text is None:
        return None
    if text.strip().isdecimal():
        return int(text)
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _check_unseen(value: Any) -> int | tuple[str, ...] | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise ConfigError(f"{PREPARE}.unseen_tables must be a whole number or a list of names, got {value!r}.")


def make_pretrain_config(
    corpus_backbone: str,
    *,
    preset: str | None,
    ablation: str | None,
    file: Path | None,
    flags: Mapping[str, Any],
    running: Path | None = None,
) -> PretrainConfig:
    """Return the settings of `navi pretrain`: a preset, then the file, then flags given as `section.name`.

    The backbone is the corpus's unless something else says so. A run that is to go on (`running` is its directory)
    keeps the settings it was started with, where no preset, ablation or file is given.
    """
    from navi.training import PretrainConfig, make_preset

    recorded = recall_settings(running) if running and not (preset or ablation or file) else None
    if recorded is not None:
        base = PretrainConfig.from_dict(recorded)
    else:
        base = replace(make_preset(preset or "default", ablation), backbone=corpus_backbone)
    content = {name: value for name, value in read_settings(file).items() if name != PREPARE}
    return PretrainConfig.from_dict(nest(drop_unset(flags)), PretrainConfig.from_dict(content, base))


def recall_settings(out: Path) -> dict[str, Any] | None:
    """Return the settings that the run in a directory was started with; None if there is no run."""
    from navi.training import TrainingResult
    from navi.training.checkpoint import load_state
    from navi.training.folder import find_latest
    from navi.training.result import RECORD_FILE

    latest = find_latest(out)
    if latest is not None:
        _, identity = load_state(latest)
        return nest({name: value for name, value in identity.items() if name not in _NOT_SETTINGS})
    return TrainingResult.load(out).config if (out / RECORD_FILE).is_file() else None


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings named `section.name` as nested dictionaries.

    >>> nest({"backbone": "minilm", "training.epochs": 1})
    {'backbone': 'minilm', 'training': {'epochs': 1}}
    """
    nested: dict[str, Any] = {}
    for full_name, value in flat.items():
        *sections, name = full_name.split(".")
        place = nested
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = value
    return nested
