"""Devices by name, checked before anything is put on them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from navi.errors import ConfigError

Devices = str | torch.device | Sequence[str | torch.device] | None
"""One device, several (`cuda:0,cuda:1` or a list), or None for the best there is."""


def parse_devices(device: Devices) -> list[torch.device]:
    """Return the devices that a user named.

    >>> parse_devices("cpu, cpu")
    [device(type='cpu'), device(type='cpu')]
    """
    if device is None:
        return [torch.device("cuda" if torch.cuda.is_available() else "cpu")]
    if isinstance(device, torch.device):
        return [_check(device)]
    names = device.split(",") if isinstance(device, str) else list(device)
    if not names:
        raise ConfigError("No device named. Expected cpu, cuda, cuda:0 or several, such as cuda:0,cuda:1.")
    return [_check(name if isinstance(name, torch.device) else _parse(name.strip())) for name in names]


def _parse(name: str) -> torch.device:
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise ConfigError(
            f"Unknown device '{name}'. Expected cpu, cuda, cuda:0 or several, such as cuda:0,cuda:1."
        ) from error


def _check(device: torch.device) -> torch.device:
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= count:
            raise ConfigError(f"The device '{device}' is not there: {count} CUDA devices were found. Use cpu.")
    elif device.type == "mps":
        if not torch.backends.mps.is_available():
            raise ConfigError(f"The device '{device}' is not there. Use cpu.")
    elif device.type != "cpu":
        raise ConfigError(f"The device '{device}' is not supported. Expected cpu, cuda or mps.")
    return device
