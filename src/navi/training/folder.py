"""The directory of a run: whether it may be used, and where the run in it stands."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from navi.errors import ConfigError, TrainingError
from navi.training.checkpoint import FOLDER, list_checkpoints
from navi.training.curves import CURVES_FILE
from navi.training.metrics import EVENTS_FOLDER, METRICS_FILE
from navi.training.result import RECORD_FILE
from navi.training.samples import SAMPLES_FILE


def open_folder(out: Path, *, resume: bool, overwrite: bool) -> None:
    """Make sure that a run can write to `out` and harms nothing there; clear away what it is to write over."""
    _check_writable(out)
    latest, finished = find_latest(out), (out / RECORD_FILE).is_file()
    if latest is None and not finished:
        _check_strangers(out)
    if resume:
        return
    if not overwrite and (latest is not None or finished):
        state = "a finished model" if latest is None else f"a run that stands at {latest.name}"
        raise ConfigError(
            f"{out} holds {state}. Resume it (--resume), overwrite it (--overwrite), or give another directory."
        )
    clear_run(out)


def find_latest(out: Path) -> Path | None:
    """Return the newest complete checkpoint of a run, if it has one."""
    checkpoints = list_checkpoints(out / FOLDER)
    return checkpoints[-1] if checkpoints else None


def clear_run(out: Path) -> None:
    """Remove what a run appends to or resumes from."""
    drop_checkpoints(out)
    shutil.rmtree(out / EVENTS_FOLDER, ignore_errors=True)
    for name in (RECORD_FILE, METRICS_FILE, SAMPLES_FILE):
        (out / name).unlink(missing_ok=True)


def drop_checkpoints(out: Path) -> None:
    """Remove all checkpoints: a finished run needs none."""
    shutil.rmtree(out / FOLDER, ignore_errors=True)


@contextmanager
def writing(out: Path) -> Iterator[None]:
    """Turn a disk that is full or cannot be written to into one clear line."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TrainingError(
            f"Cannot write to {out}: {reason}. The last good checkpoint is kept; make room, then resume."
        ) from error


def _check_strangers(out: Path) -> None:
    """Refuse a directory with files that no run put there: some might have names that a run writes to."""
    ours = {FOLDER, EVENTS_FOLDER, METRICS_FILE, SAMPLES_FILE, CURVES_FILE}
    strangers = sorted(path.name for path in out.iterdir() if path.name not in ours)
    if strangers:
        raise ConfigError(
            f"{out} holds files that are not a run's, {strangers[0]} among them. Give a new or an empty directory."
        )


def _check_writable(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise ConfigError(
            f"Cannot write to {out}: {error.strerror}. Give a directory that can be written to."
        ) from error
