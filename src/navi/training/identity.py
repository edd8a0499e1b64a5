"""What run a checkpoint belongs to: the settings that change its result, and the corpus."""

from __future__ import annotations

from typing import Any

from navi.training.config import PretrainConfig

HARMLESS = ("workers", "checkpoint_steps", "checkpoint_minutes", "keep_checkpoints", "max_bad_steps", "curves")
"""Settings of `TrainingConfig` that may differ when a run is resumed."""


def describe_run(config: PretrainConfig, fingerprint: str, num_processes: int) -> dict[str, Any]:
    """Return the run's identity, flat, by the names that a user knows the settings by."""
    identity = _flatten(config.to_dict())
    for name in HARMLESS:
        del identity[f"training.{name}"]
    return identity | {"corpus": fingerprint, "number of processes": num_processes}


def _flatten(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat |= _flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat
