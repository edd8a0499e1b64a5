"""Checkpoints: all that a run needs to go on, whole or not there at all."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import AdamW

from navi.errors import TrainingError

FOLDER = "checkpoints"
MARK = "COMPLETE"
WEIGHTS, OPTIMIZER, STATE = "model.safetensors", "optimizer.safetensors", "state.json"
_UNFINISHED = ".unfinished-"


@dataclass(kw_only=True)
class RunState:
    """Where a run stands between two steps; with weights and optimiser it is all that the future depends on.

    There is no random state in it: order, masks and dropout are functions of the seed and the step.
    """

    step: int = 0
    """Steps done."""
    validations: int = 0
    """Validations done; one comes before the first step and one after each epoch."""
    max_tokens: int | None = None
    """Largest part that a step is taken in, once memory ran out."""
    skipped: int = 0
    """Steps whose loss was not finite, in all."""
    bad_run: int = 0
    """Steps whose loss was not finite, in a row, up to now."""
    window: list[float] = field(default_factory=list)
    """What the steps since the last line of metrics add up to."""
    seconds: float = 0.0
    """Time spent on the steps done."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Bytes of each file that the run appends to."""
    notes: list[str] = field(default_factory=list)
    """What a user should know of the run up to now."""


def save_checkpoint(
    folder: Path, model: nn.Module, optimizer: AdamW, state: RunState, identity: dict[str, Any], *, keep: int
) -> Path:
    """Write a checkpoint aside, mark it complete, move it into place, and drop all but the newest `keep`.

    `identity` says what run this is; `check_identity` compares it on resuming. When the disk is full or cannot be
    written to, what was there before stays as it was.
    """
    place = folder / f"step-{state.step:09d}"
    if (place / MARK).is_file():
        return place
    aside = folder / f"{_UNFINISHED}{place.name}-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove(place)
        _write(aside, model, optimizer, {"state": asdict(state), "identity": identity})
        aside.rename(place)
        _sync(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise TrainingError(_explain_failure(folder, state.step, error)) from error
    kept = list_checkpoints(folder)[-keep:]
    for other in folder.iterdir():
        if other not in kept:
            _remove(other)
    return place


def list_checkpoints(folder: Path) -> list[Path]:
    """Return the complete checkpoints, oldest first; partly written ones are not among them."""
    return sorted(place for place in folder.glob("step-*") if (place / MARK).is_file())


def load_state(place: Path) -> tuple[RunState, dict[str, Any]]:
    """Return where the run of a checkpoint stood, and its identity."""
    try:
        found = json.loads((place / STATE).read_text(encoding="utf-8"))
        return RunState(**found["state"]), found["identity"]
    except (OSError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise TrainingError(f"The checkpoint {place} is damaged: {error!r}. {_DELETE}") from error


def load_tensors(place: Path, model: nn.Module, optimizer: AdamW) -> None:
    """Put a checkpoint's weights and optimiser state into place."""
    try:
        weights, states = load_file(place / WEIGHTS), load_file(place / OPTIMIZER)
    except (OSError, SafetensorError) as error:
        raise TrainingError(f"The checkpoint {place} is damaged: {error}. {_DELETE}") from error
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    if set(names.values()) != set(weights):
        different = sorted(set(names.values()) ^ set(weights))
        raise TrainingError(f"The checkpoint {place} is of another model: {different[0]} is not in both. {_DELETE}")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
    optimizer.load_state_dict(_restore(optimizer, names, states))


def check_identity(found: dict[str, Any], expected: dict[str, Any], place: Path) -> None:
    """Raise unless a checkpoint belongs to the run that is to go on; settings that change no result may differ."""
    different = [key for key in sorted({*found, *expected}) if found.get(key) != expected.get(key)]
    if not different:
        return
    key = different[0]
    if key == "corpus":
        raise TrainingError(
            f"Cannot resume from {place}: the corpus has changed since (fingerprint {found.get(key)}, "
            f"now {expected.get(key)}). Give the corpus it was started with, or start anew in another directory."
        )
    raise TrainingError(
        f"Cannot resume from {place}: {key} was {found.get(key)!r} and is now {expected.get(key)!r}"
        + (f", and {len(different) - 1} more settings differ" if len(different) > 1 else "")
        + ". Give the settings it was started with, or start anew in another directory."
    )


_DELETE = "Delete it to go on from the one before."


def _write(aside: Path, model: nn.Module, optimizer: AdamW, state: dict[str, Any]) -> None:
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    weights = {name: parameter.detach().contiguous() for name, parameter in model.named_parameters()}
    save_file(weights, aside / WEIGHTS)
    save_file(_flatten(optimizer, names), aside / OPTIMIZER)
    (aside / STATE).write_text(json.dumps(state, indent=1), encoding="utf-8")
    for name in (WEIGHTS, OPTIMIZER, STATE):
        _sync(aside / name)
    (aside / MARK).touch()
    _sync(aside / MARK)
    _sync(aside)


def _flatten(optimizer: AdamW, names: dict[int, str]) -> dict[str, Tensor]:
    """Return the optimiser's tensors by `<parameter>/<moment>`."""
    return {
        f"{names[id(parameter)]}/{moment}": tensor.detach().contiguous()
        for parameter, moments in optimizer.state.items()
        for moment, tensor in moments.items()
    }


def _restore(optimizer: AdamW, names: dict[int, str], states: dict[str, Tensor]) -> dict[str, Any]:
    """Return the optimiser's state dictionary with these tensors in it; rates and groups are the optimiser's own."""
    moments: dict[str, dict[str, Tensor]] = {}
    for full_name, tensor in states.items():
        name, moment = full_name.rsplit("/", 1)
        moments.setdefault(name, {})[moment] = tensor.clone()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    places = {place: names[id(parameter)] for place, parameter in enumerate(parameters)}
    return {
        "state": {place: moments[name] for place, name in places.items() if name in moments},
        "param_groups": optimizer.state_dict()["param_groups"],
    }


def _remove(place: Path) -> None:
    """Delete a checkpoint, its mark first, so that a half-deleted one is no checkpoint."""
    (place / MARK).unlink(missing_ok=True)
    shutil.rmtree(place, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _explain_failure(folder: Path, step: int, error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    kept = list_checkpoints(folder)
    last = f"The last good checkpoint is {kept[-1].name}" if kept else "There is no earlier checkpoint"
    return f"Cannot save a checkpoint of step {step} in {folder}: {reason}. {last}. Make room, then resume."
