"""Settings gathered for a verb: presets, then a TOML file, then flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from navi.settings import override, read_settings

if TYPE_CHECKING:
    from navi.corpus import PrepareConfig
    from navi.training import PretrainConfig

PREPARE = "prepare"
"""The section of a settings file that `navi prepare` reads; the others are `navi pretrain`'s."""


def make_prepare_config(file: Path | None, *, strict: bool = False, **flags: Any) -> PrepareConfig:
    """Return the settings of `navi prepare`: the file's section [prepare], then flags that were given."""
    from navi.corpus import PrepareConfig

    content = read_settings(file)
    section = {name: content[name] for name in ("backbone",) if name in content} | content.get(PREPARE, {})
    config = override(PrepareConfig(), section, f"{PREPARE}.") if section else PrepareConfig()
    read = replace(config.read, strict=True) if strict else config.read
    return replace(config, read=read, **{name: value for name, value in flags.items() if value is not None})


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


def make_pretrain_config(
    corpus_backbone: str,
    *,
    preset: str | None,
    ablation: str | None,
    file: Path | None,
    flags: Mapping[str, Any],
    running: Path | None = None,
) -> PretrainConfig:
    """Return the settings of `navi pretrain`: a preset, then the file, then flags, given as `section.name`.

    The backbone is the corpus's unless something else says so. A run that is to go on (`running` is its directory)
    keeps the settings it was started with, where no preset, ablation or file is given.
    """
    from navi.training import PretrainConfig, make_preset
    from navi.training.checkpoint import recall_config

    recorded = recall_config(running) if running and not (preset or ablation or file) else None
    base = recorded or replace(make_preset(preset or "default", ablation), backbone=corpus_backbone)
    config = PretrainConfig.from_dict({k: v for k, v in read_settings(file).items() if k != PREPARE}, base)
    for full_name, value in flags.items():
        *section, name = full_name.split(".")
        if value is not None:
            config = PretrainConfig.from_dict({section[0]: {name: value}} if section else {name: value}, config)
    return config
