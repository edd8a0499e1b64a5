"""A directory that appears when it is complete, and not before."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from navi.errors import CorpusError
from navi.segments.manifest import MANIFEST_FILE


def check_target(target: Path, overwrite: bool) -> None:
    """Refuse a place where a corpus cannot be put without harm."""
    if target.is_dir() and not any(target.iterdir()):
        return
    if target.is_dir() and (target / MANIFEST_FILE).is_file():
        if not overwrite:
            raise CorpusError(f"There is a corpus at {target} already. Set overwrite (--overwrite) to replace it.")
    elif target.exists() or target.is_symlink():
        raise CorpusError(f"{target} exists and is not a corpus; it will not be replaced. Choose another place.")


@contextmanager
def build(target: Path) -> Iterator[Path]:
    """Give a temporary directory beside the target, and rename it to the target if all goes well."""
    folder = target.with_name(f"{target.name}.tmp-{os.getpid()}")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise CorpusError(f"Cannot write to {target.parent}: {error.strerror}.") from error
    try:
        yield folder
        _replace(target, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _replace(target: Path, folder: Path) -> None:
    sync_folder(folder)
    old = target.with_name(f"{target.name}.old-{os.getpid()}")
    if target.exists():
        target.rename(old)
    folder.rename(target)
    sync_folder(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Make sure that the names in a folder are on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
