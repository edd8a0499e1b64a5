"""The one way to write: beside the target, onto the disk, then under its name, so that nobody ever sees half of it.

A killed process leaves its unfinished file or folder behind, under a name that ends with its process number. The next
writer of the same target removes it, and puts a folder back that was moved away but not yet replaced.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from navi.errors import NaviError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_PART, _OLD = ".part-", ".old-"


@contextmanager
def write_file(target: Path) -> Iterator[Path]:
    """Give a path beside `target` to write to, and rename it to the target when the block ends well."""
    remove_leftovers(target)
    aside = target.with_name(f"{target.name}{_PART}{os.getpid()}")
    try:
        yield aside
        sync(aside)
        aside.replace(target)
        sync(target.parent)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def write_folder(target: Path) -> Iterator[Path]:
    """Give a new folder beside `target`, and put it in the target's place when the block ends well.

    Whether a folder that is there already may be replaced, the caller decides before.
    """
    remove_leftovers(target)
    aside = target.with_name(f"{target.name}{_PART}{os.getpid()}")
    aside.mkdir(parents=True)
    try:
        with _hold(aside):
            yield aside
            for path in (*aside.rglob("*"), aside):
                sync(path)
            _replace(target, aside)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def write_json(file: Path, content: Any) -> None:
    """Write a JSON file whole."""
    with write_file(file) as aside:
        aside.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def read_json(file: Path, error: type[NaviError], remedy: str) -> dict[str, Any]:
    """Return the object in a JSON file, or raise `error` with what is wrong and the `remedy`."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as reason:
        raise error(f"Cannot read {file}: {reason}. {remedy}") from reason
    if not isinstance(found, dict):
        raise error(f"Cannot read {file}: expected an object, found {type(found).__name__}. {remedy}")
    return found


def digest_file(file: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Make sure that a file's content, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(target: Path) -> None:
    """Clear away what killed writers of this target have left beside it; put back what one had only moved away."""
    for mark in (_OLD, _PART):
        beginning = f"{target.name}{mark}"
        for path in sorted(target.parent.glob(f"{glob.escape(beginning)}*")):
            if not path.name.removeprefix(beginning).isdecimal() or _is_in_use(path, beginning):
                continue
            if mark == _OLD and not target.exists():
                path.rename(target)
            elif path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with suppress(OSError):
                    path.unlink()


def _is_in_use(path: Path, beginning: str) -> bool:
    process = int(path.name.removeprefix(beginning))
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        pass
    except (PermissionError, OverflowError):
        return True
    else:
        if process != os.getpid():
            return True
    if not path.is_dir():
        return False
    with _hold(path) as held:
        return not held


@contextmanager
def _hold(folder: Path) -> Iterator[bool]:
    """Lock a folder, and say whether that was possible.

    A lock ends with its process, and is seen from other containers too, where the number of a process says nothing.
    """
    descriptor, held = os.open(folder, os.O_RDONLY), fcntl is None
    try:
        with suppress(OSError):
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held = True
        yield held
    finally:
        os.close(descriptor)


def _replace(target: Path, folder: Path) -> None:
    old = target.with_name(f"{target.name}{_OLD}{os.getpid()}")
    if target.exists():
        target.rename(old)
    folder.rename(target)
    sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)
