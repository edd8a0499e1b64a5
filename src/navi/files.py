"""The one way to write: aside, onto the disk, then under its name, so that nobody ever sees half of it.

What goes to an object store (`navi.storage`) is written to a scratch folder first and put up whole, the file that says
that all is there last; what comes from one is fetched whole.

What is being written lies in a folder `.navi-PROCESS@HOST-…` beside its target, which its writer has locked. A killed
writer's lock ends with it: the next one to write in the same place removes what it left, and puts a folder back that
was moved away but not yet replaced.
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import glob
import hashlib
import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from navi.errors import ConfigError, NaviError, StorageError, TableError
from navi.storage import connect, fetch, is_remote, list_remote, put, show_address

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

ASIDE = ".navi-"
"""How the names begin of all that is there for a time only."""
LOCK_FILE, MOVED_FOLDER = f"{ASIDE}lock", f"{ASIDE}old"
MAX_JSON_BYTES = 1 << 28
"""Size from which a JSON file of ours is taken for something else."""
SAMPLED_BYTES, NUM_SAMPLES = 1 << 22, 64
"""Bytes of a larger file that `digest_sample` reads, and in how many pieces."""
_OWNER = re.compile(r"(\d+)@(.*)")
_CHECKSUM = re.compile(rb',\n "checksum": "([0-9a-f]{64})"\n}\n\Z')
_AT_WORKING_FOLDER, _EXCHANGE = -100, 2  # what Linux calls AT_FDCWD and RENAME_EXCHANGE
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)


@contextmanager
def write_file(target: Path) -> Iterator[Path]:
    """Give a path of the target's name to write to, and put the file in its place when the block ends well."""
    with _writing(target) as new:
        yield new
        if is_remote(target):
            put(new, target)
            return
        sync(new)
        new.replace(target)
        sync(target.parent)


@contextmanager
def write_folder(target: Path, *, overwrite: bool = True, last: str = "") -> Iterator[Path]:
    """Give a new folder, and put it in the target's place, at one stroke, when the block ends well.

    Whether a folder that is there already may be replaced, the caller decides before; one that comes meanwhile is a
    FileExistsError without `overwrite`. In an object store `last` says that all other files are there.
    """
    if not is_remote(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    with _writing(target) as new:
        new.mkdir()
        yield new
        if is_remote(target):
            put_folder(new, target, [last])
            return
        for path in (*new.rglob("*"), new):
            sync(path)
        if not os.path.lexists(target) or not overwrite:
            _rename(new, target)
        elif not _exchange(new, target):
            old = new.with_name(MOVED_FOLDER)
            old.mkdir()
            target.rename(old / target.name)
            new.rename(target)
        sync(target.parent)


def write_json(file: Path, content: Any, *, checksum: bool = False) -> None:
    """Write a JSON file whole; with a checksum of it in its last line, `read_json` sees every change."""
    text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
    if checksum:
        text = f'{text[:-3]},\n "checksum": "{hashlib.sha256(text.encode()).hexdigest()}"\n}}\n'
    with write_file(file) as aside:
        aside.write_text(text, encoding="utf-8")


def read_json(file: Path, error: type[NaviError], remedy: str, *, checksum: bool = False) -> dict[str, Any]:
    """Return the object in a JSON file, or raise `error` with what is wrong and the `remedy`.

    A checksum in it must fit, and with `checksum` it must be there.
    """
    try:
        if (size := find_version(file)[0]) > MAX_JSON_BYTES:
            raise error(f"Cannot read {file}: it has {size} bytes, more than the {MAX_JSON_BYTES} allowed. {remedy}")
        with open_binary(file) as opened:
            raw = opened.read()
        found = json.loads(raw.decode())
    except (OSError, ValueError, RecursionError) as reason:
        if isinstance(reason, error):
            raise
        raise error(f"Cannot read {file}: {reason}. {remedy}") from reason
    if not isinstance(found, dict):
        raise error(f"Cannot read {file}: expected an object, found {type(found).__name__}. {remedy}")
    if checksum or "checksum" in found:
        written = _CHECKSUM.search(raw)
        if not written or hashlib.sha256(raw[: written.start()] + b"\n}\n").hexdigest() != written[1].decode():
            raise error(f"{file} is not as it was written: its checksum does not fit. {remedy}")
        del found["checksum"]
    return found


def append_line(file: Path, line: str) -> None:
    """Add a line to a file that several processes may add to; what a killed one left of a line is taken away."""
    with file.open("ab+") as opened:
        if fcntl is not None:
            with suppress(OSError):  # not every file system locks
                fcntl.flock(opened, fcntl.LOCK_EX)
        opened.seek(0)
        content = opened.read()
        opened.truncate(content.rfind(b"\n") + 1)
        opened.write(line.encode() + b"\n")
        opened.flush()
        os.fsync(opened.fileno())


def check_target(target: Path, inputs: Iterable[Path] = (), *, overwrite: bool) -> None:
    """Refuse, before any work, to write a file where there is no folder, over what is there, and among what is read."""
    if not is_remote(target) and not target.parent.is_dir():
        raise ConfigError(f"Cannot write {target}: there is no folder {target.parent}. Make it first.")
    if target.is_dir():
        raise ConfigError(f"Cannot write {target}: it is a folder. Give the name of a file.")
    for path in [found for each in inputs for found in expand_pattern(each)]:
        if target.exists() and path.exists() and target.samefile(path):
            raise ConfigError(f"Cannot write {target}: it is what is read. Give another name.")
        if path.is_dir() and path.resolve() in target.resolve().parents:
            raise ConfigError(f"Cannot write {target}: it would lie among the tables of {path}. Write it elsewhere.")
    if not overwrite and is_there(target):
        raise ConfigError(f"{show_address(target)} exists. Replace it with --overwrite, or give another name.")


def expand_pattern(path: Path) -> list[Path]:
    """Return the files and folders that a path or a pattern stands for, sorted."""
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    try:
        return sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
    except ValueError as error:
        raise TableError(f"Cannot read {path}: {error}.") from error


def open_binary(file: Path) -> IO[bytes]:
    """Open a file to read, wherever it is."""
    if not is_remote(file):
        return file.open("rb")
    with connect(file) as (store, place):
        opened: IO[bytes] = store.open(place, "rb")
        return opened


def is_there(path: Path) -> bool:
    """Return whether there is a file or a folder, wherever it is."""
    if not is_remote(path):
        return os.path.lexists(path)
    with connect(path) as (store, place):
        store.invalidate_cache()
        return bool(store.exists(place))


def remove_file(path: Path) -> None:
    """Remove a file, wherever it is, if it is there."""
    if not is_remote(path):
        path.unlink(missing_ok=True)
    elif is_there(path):
        with connect(path) as (store, place):
            store.rm_file(place)


def list_folder(folder: Path) -> dict[str, Path]:
    """Return the files of a folder, wherever it is, by name and in order of names."""
    if is_remote(folder):
        return {file.name: file for file in list_remote(folder) if file.parent == folder}
    return {file.name: file for file in sorted(folder.glob("*"))}


def find_version(file: Path) -> tuple[int, str]:
    """Return the size of a file, and what changes when it is written again."""
    if not is_remote(file):
        return file.stat().st_size, str(file.stat().st_mtime_ns)
    facts = list_remote(file).get(file)
    if facts is None:
        raise StorageError(f"There is no file {show_address(file)}.")
    return facts


@contextmanager
def local_file(path: Path) -> Iterator[Path]:
    """Give a local file: the one given, or a copy, for a time, of the one at an address."""
    if not is_remote(path):
        yield path
        return
    with scratch_folder() as folder:
        fetch(path, folder / path.name)
        yield folder / path.name


def temporary_folder() -> Path:
    """Return a scratch folder that is there until this process ends."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(scratch_folder())


def local_folder(path: Path, *, make: bool = False) -> Path:
    """Return a local folder: the one given, or a copy, until this process ends, of the one at an address.

    Where there is nothing at the address, an empty one is made on request, else it is an error.
    """
    if not is_remote(path):
        return path
    found = list_remote(path)
    if not found and not make:
        raise StorageError(f"There is nothing at {show_address(path)}.")
    folder = temporary_folder() / path.name
    folder.mkdir()
    for file in found:
        copy = folder / file.relative_to(path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        fetch(file, copy)
    return folder


def put_folder(folder: Path, target: Path, last: Sequence[str] = (), fixed: str = "") -> None:
    """Make the files at an address those of a local folder; those called `last` come last, and go first.

    Files below a folder called `fixed` never change, and are put up once.
    """
    there = list_remote(target)
    here = {target / file.relative_to(folder): file for file in sorted(folder.rglob("*")) if file.is_file()}
    here = {path: file for path, file in here.items() if not path.name.startswith(ASIDE)}
    kept = {path for path in here.keys() & there.keys() if fixed in path.parts}
    rank = {name: place for place, name in enumerate(last)}
    for path in sorted(there.keys() - kept, key=lambda path: -rank.get(path.name, -1)):
        if path not in here or path.name in last:
            remove_file(path)
    for path in sorted(here.keys() - kept, key=lambda path: rank.get(path.name, -1)):
        put(here[path], path)


def digest_file(file: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with open_binary(file) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]


def digest_sample(file: Path) -> str:
    """Return the SHA-256 of a small file, and of pieces all over a large one, its beginning and end among them."""
    size, piece = find_version(file)[0], SAMPLED_BYTES // NUM_SAMPLES
    if size <= SAMPLED_BYTES:
        return digest_file(file)
    digest = hashlib.sha256()
    with open_binary(file) as content:
        for number in range(NUM_SAMPLES):
            content.seek((size - piece) * number // (NUM_SAMPLES - 1))
            digest.update(content.read(piece))
    return digest.hexdigest()


def sync(path: Path) -> None:
    """Make sure that a file's content, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def lock(target: Path, *, inside: bool = False) -> Iterator[None]:
    """Keep a place for this process, by a file beside or inside it; another process at work there is a clear error.

    Object stores have no locks: there nothing is checked.
    """
    if is_remote(target):
        yield
        return
    file = target / LOCK_FILE if inside else target.with_name(f"{LOCK_FILE}-{target.name}")
    while True:
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(target)) from error
        owner = os.read(descriptor, 300).decode(errors="replace")
        if not _try_lock(descriptor, owner):
            os.close(descriptor)
            who = _OWNER.fullmatch(owner)
            by = f"process {who[1]} on {who[2]}" if who else "another process"
            raise ConfigError(f"{target} is being written by {by}. Wait until it has ended, or give another place.")
        if _is_same_file(descriptor, file):
            break
        os.close(descriptor)  # its owner has just ended and removed it
    try:
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, _name_owner().encode(), 0)
        yield
    finally:
        with suppress(OSError):
            file.unlink()
        os.close(descriptor)


def was_locked(folder: Path) -> bool:
    """Return whether a process works in a folder, or was killed while it did."""
    return (folder / LOCK_FILE).is_file()


def remove_leftovers(folder: Path) -> None:
    """Clear away what killed writers have left in a folder; put back what one had only moved away."""
    if is_remote(folder):
        return
    for left in (*folder.glob(f"{ASIDE}*@*"), *folder.glob(f"{LOCK_FILE}-*")):
        with suppress(OSError):  # others may clear away, too
            descriptor = os.open(left, os.O_RDONLY)
            try:
                is_aside = left.is_dir()
                owner = left.name.removeprefix(ASIDE).rpartition("-")[0] if is_aside else left.read_text()
                if not _try_lock(descriptor, owner):
                    continue
                for old in (left / MOVED_FOLDER).glob("*"):
                    if not os.path.lexists(folder / old.name):
                        old.rename(folder / old.name)
                shutil.rmtree(left, ignore_errors=True) if is_aside else left.unlink()
            finally:
                os.close(descriptor)


@contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """Give a locked folder for what is needed for a time only; the next one to ask removes what a killed process left.

    It lies where the system has such folders, or in the parent given.
    """
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    remove_leftovers(parent)
    descriptor = None
    while descriptor is None:
        aside = Path(tempfile.mkdtemp(prefix=f"{ASIDE}{_name_owner()}-", dir=parent))
        with suppress(FileNotFoundError):  # someone who clears away was quicker than the lock
            descriptor = os.open(aside, os.O_RDONLY)
            if not (_try_lock(descriptor, "") and _is_same_file(descriptor, aside)):
                os.close(descriptor)
                descriptor = None
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        os.close(descriptor)


@contextmanager
def _writing(target: Path) -> Iterator[Path]:
    """Give a place of a target's name, in a scratch folder beside it if it is no address; errors name the target."""
    aside = None
    try:
        with scratch_folder(None if is_remote(target) else target.parent) as aside:
            yield aside / target.name
    except OSError as error:
        # Inputs are read in the block, too: what went wrong with them is not the target's.
        ours = aside is None or error.filename is None or str(error.filename).startswith(str(aside))
        if error.errno is None or not ours or (aside is not None and error.errno not in _FULL):
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(target)) from error


def _name_owner() -> str:
    return f"{os.getpid()}@{re.sub(r'[^A-Za-z0-9.]', '_', socket.gethostname())[:60]}"


def _try_lock(descriptor: int, owner: str) -> bool:
    """Lock what is open, and return whether nobody else has.

    A lock ends with its process, and is seen from other containers too. Where a file system has none, the owner's
    process number tells, if it is of this host.
    """
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except BlockingIOError:
        return False
    except OSError:
        pass
    process, _, host = owner.partition("@")
    if not process.isdecimal() or owner == _name_owner():
        return True
    if host != _name_owner().partition("@")[2]:
        return False
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        pass
    return False


def _is_same_file(descriptor: int, path: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def _rename(folder: Path, target: Path) -> None:
    """Rename a folder to what nothing is called, or an empty folder."""
    try:
        folder.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from error


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders change places at one stroke; false where the system cannot."""
    exchange: Any = getattr(ctypes.CDLL(None), "renameat2", None) if os.name == "posix" else None
    if exchange is None:
        return False
    here = _AT_WORKING_FOLDER
    return bool(exchange(here, os.fsencode(one), here, os.fsencode(other), _EXCHANGE) == 0)
