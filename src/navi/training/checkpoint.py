"""The directory of a run and the checkpoints in it: all that a run needs to go on, whole or not there at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import AdamW

from navi.corpus import Corpus
from navi.errors import ConfigError, TrainingError
from navi.files import ASIDE, digest_file, lock, read_json, sync, was_locked, write_folder, write_json
from navi.settings import construct
from navi.training.config import PretrainConfig

CHECKPOINTS, RECORD_FILE = "checkpoints", "pretrain.json"
WEIGHTS, OPTIMIZER, STATE = "model.safetensors", "optimizer.safetensors", "state.json"
METRICS_FILE = "metrics.jsonl"
"""What a run adds lines to while it goes."""
EXPORTED = ("config.json", "tokenizer.json", "README.md", "values.arrow", "columns.arrow")
"""What stands beside the weights of a finished run."""
FORMAT = 5
"""Version of the files of a checkpoint; one of another version is refused."""
HARMLESS = frozenset(["workers", "checkpoint_steps", "checkpoint_minutes", "keep_checkpoints", "keep_values"])
"""Settings of `TrainingConfig` that change no result and may differ when a run is resumed."""
_DELETE = "Delete it to go on from the one before."


@dataclass(kw_only=True)
class RunState:
    """Where a run stands between two steps; with weights and optimiser it is all that the future depends on.

    There is no random state in it: order, masks and dropout are functions of the seed and the step.
    """

    step: int = 0
    """Steps done."""
    validation: list[dict[str, Any]] = field(default_factory=list)
    """The lines of the validations done; one comes before the first step and one after each epoch."""
    train: dict[str, Any] = field(default_factory=dict)
    """The latest line of metrics of steps."""
    num_steps: int | None = None
    """Steps of the run, once it is measured how many its minutes allow."""
    most_steps: int | None = None
    """Steps of the run, at most, once an epoch has not lowered the validation loss."""
    lowest: float | None = None
    """The lowest validation loss of an epoch up to now."""
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
    logged: int = 0
    """Bytes of metrics.jsonl."""
    notes: list[str] = field(default_factory=list)
    """What a user should know of the run up to now."""


@dataclass(frozen=True, kw_only=True)
class RunIdentity:
    """What run a checkpoint belongs to."""

    config: dict[str, Any]
    """Its settings, as `PretrainConfig.from_dict` takes them."""
    corpus: str
    """Fingerprint of its corpus."""

    @classmethod
    def of(cls, config: PretrainConfig, corpus: Corpus) -> Self:
        """Return what run these settings and this corpus make."""
        return cls(config=config.to_dict(), corpus=corpus.fingerprint)

    def describe(self) -> dict[str, Any]:
        """Return all that changes the result, flat, by the names that a user knows the settings by."""
        flat: dict[str, Any] = {"corpus": self.corpus}
        for section, values in self.config.items():
            named = values if isinstance(values, dict) else {}
            flat |= {f"{section}.{name}": value for name, value in named.items()} or {section: values}
        return {name: value for name, value in flat.items() if name.removeprefix("training.") not in HARMLESS}

    def check(self, found: RunIdentity, place: Path) -> None:
        """Raise unless what was found at a place belongs to this run; settings that change no result may differ."""
        before, now = found.describe(), self.describe()
        different = [key for key in sorted({*before, *now}) if before.get(key) != now.get(key)]
        if not different:
            return
        key, *others = different
        change = f"{key} was {before.get(key)!r} and is now {now.get(key)!r}"
        if key == "corpus":
            change = f"the corpus has changed since (fingerprint {before[key]}, now {now[key]})"
        more = f", and {len(others)} more settings differ" if others else ""
        raise TrainingError(
            f"Cannot resume from {place}: {change}{more}. "
            "Give corpus and settings as when it was started, or start again in another directory."
        )


def save_checkpoint(
    out: Path, model: nn.Module, optimizer: AdamW, state: RunState, identity: RunIdentity, *, keep: int
) -> None:
    """Write a checkpoint, and drop all but the newest `keep`; a step that has one already is left as it is."""
    place = out / CHECKPOINTS / f"step-{state.step:09d}"
    if place not in list_checkpoints(out):
        with write_folder(place) as aside:
            save_weights(model, aside / WEIGHTS)
            moments = optimizer.state_dict()["state"]
            save_file({f"{i}/{name}": x for i, each in moments.items() for name, x in each.items()}, aside / OPTIMIZER)
            sync(aside / OPTIMIZER)
            digests = {name: digest_file(aside / name) for name in (WEIGHTS, OPTIMIZER)}
            content = {"format": FORMAT, "state": asdict(state), "identity": asdict(identity), "sha256": digests}
            write_json(aside / STATE, content, checksum=True)
    remove_checkpoints(out, keep=keep)


def remove_checkpoints(out: Path, *, keep: int = 0) -> None:
    """Remove all checkpoints but the newest `keep`, and all that is left of others."""
    kept = list_checkpoints(out)[-keep:] if keep else []
    for other in (out / CHECKPOINTS).glob("*"):
        if other not in kept:
            # Without its state a half-deleted one is no checkpoint.
            with suppress(OSError):
                (other / STATE).unlink()
            shutil.rmtree(other, ignore_errors=True)
    if not kept:
        shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)


def save_weights(model: nn.Module, file: Path) -> None:
    """Write the parameters of a model, each once."""
    weights = {name: parameter.detach().contiguous() for name, parameter in model.named_parameters()}
    save_file(weights, file, metadata={"format": "pt"})
    sync(file)


def list_checkpoints(out: Path) -> list[Path]:
    """Return the complete checkpoints of a run, oldest first."""
    named = (place for place in (out / CHECKPOINTS).glob("step-*") if place.suffix == "")
    return sorted(place for place in named if (place / STATE).is_file())


def load_checkpoint(place: Path, identity: RunIdentity, model: nn.Module, optimizer: AdamW) -> RunState:
    """Put a checkpoint's weights and optimiser state into place, and return where its run stood."""
    state, found, digests = read_state(place)
    identity.check(found, place)
    try:
        for name in (WEIGHTS, OPTIMIZER):
            if digest_file(place / name) != digests.get(name):
                raise TrainingError(f"The checkpoint {place} is damaged: {name} is not as it was written. {_DELETE}")
        weights, moments = load_file(place / WEIGHTS), load_file(place / OPTIMIZER)
    except (OSError, SafetensorError) as error:
        raise TrainingError(f"The checkpoint {place} is damaged: {error}. {_DELETE}") from error
    by_parameter: dict[int, dict[str, Tensor]] = {}
    try:
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(weights[name])
        for full_name, tensor in moments.items():
            number, name = full_name.split("/")
            by_parameter.setdefault(int(number), {})[name] = tensor
        optimizer.load_state_dict({"state": by_parameter, "param_groups": optimizer.state_dict()["param_groups"]})
    except (KeyError, RuntimeError, ValueError) as error:
        raise TrainingError(f"The checkpoint {place} is of another model: {error}. {_DELETE}") from error
    return state


def read_state(place: Path) -> tuple[RunState, RunIdentity, dict[str, Any]]:
    """Return where the run of a checkpoint stood, what run it is, and the digests of its files."""
    content = read_json(place / STATE, TrainingError, _DELETE)
    if content.get("format") != FORMAT:
        raise TrainingError(
            f"The checkpoint {place} has format {content.get('format', 1)}, this version reads {FORMAT}. Go on with "
            "the version that wrote it, or start again (--overwrite)."
        )
    try:
        state = construct(RunState, content.get("state"))
        identity = construct(RunIdentity, content.get("identity"))
    except ConfigError as error:
        raise TrainingError(f"The checkpoint {place} is damaged: {error}. {_DELETE}") from error
    return state, identity, content.get("sha256", {})


@contextmanager
def open_folder(out: Path, *, resume: bool, overwrite: bool) -> Iterator[None]:
    """Keep `out` for a run that can write to it and harms nothing there; clear away what it is to write over.

    The lock says of a run that was killed before its first checkpoint that the folder is a run's.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise ConfigError(
            f"Cannot write to {out}: {error.strerror}. Give a directory that can be written to."
        ) from error
    checkpoints, finished = list_checkpoints(out), (out / RECORD_FILE).is_file()
    if not checkpoints and not finished and not was_locked(out):
        # Some files of others might have names that a run writes to.
        names = {path.name for path in out.iterdir() if not path.name.startswith(ASIDE)}
        if others := sorted(names - {CHECKPOINTS, METRICS_FILE}):
            raise ConfigError(
                f"{out} holds files that are not a run's, {others[0]} among them. Give a new or an empty directory."
            )
    if not resume and not overwrite and (checkpoints or finished):
        state = f"a run that stands at {checkpoints[-1].name}" if checkpoints else "a finished model"
        raise ConfigError(
            f"{out} holds {state}. Resume it (--resume), overwrite it (--overwrite), or give another directory."
        )
    with lock(out, inside=True):
        if not resume:
            remove_checkpoints(out)
            for name in (RECORD_FILE, WEIGHTS, *EXPORTED, METRICS_FILE):
                (out / name).unlink(missing_ok=True)
        yield


@contextmanager
def writing(out: Path) -> Iterator[None]:
    """Turn a disk that is full or cannot be written to into one clear line."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        checkpoints = list_checkpoints(out)
        newest = f"The newest checkpoint is {checkpoints[-1].name}" if checkpoints else "There is no checkpoint"
        raise TrainingError(f"Cannot write to {out}: {reason}. {newest}. Make room, then resume.") from error
