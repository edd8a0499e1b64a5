"""A directory that appears when it is complete, and not before."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from navi.corpus.manifest import MANIFEST_FILE
from navi.errors import CorpusError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]


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
    remove_leftovers(target)
    folder = target.with_name(f"{target.name}.tmp-{os.getpid()}")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise CorpusError(f"Cannot write to {target.parent}: {error.strerror}.") from error
    try:
        with _hold(folder):
            yield folder
            _replace(target, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_leftovers(target: Path) -> None:
    """Delete the temporary directories that processes which were killed have left beside the target.

    Where directories cannot be locked, they stay: nobody could tell whether they are in use.
    """
    if fcntl is None:
        return
    beginning = f"{target.name}.tmp-"
    for folder in target.parent.glob(f"{glob.escape(beginning)}*"):
        number = folder.name.removeprefix(beginning)
        if number.isdecimal() and folder.is_dir() and not _is_alive(int(number)):
            with _hold(folder) as held:
                if held:
                    shutil.rmtree(folder, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


@contextmanager
def _hold(folder: Path) -> Iterator[bool]:
    """Lock a directory, and say whether that was possible.

    A lock ends with its process, and is seen from other containers too, where the number of a process says nothing.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        yield _lock(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


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
