"""Files in object stores, `s3://`, `gs://`, `hf://` and whatever else fsspec has addresses for.

An address is a path whose first part is a scheme: `Path("s3://bucket/key")`, which pathlib writes with one slash less.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

from navi.errors import MissingExtraError, StorageError

_EXTRA = ("s3://", "s3a://", "gs://", "gcs://")
"""Addresses that the extra `cloud` brings the packages for."""
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+(.*)", re.DOTALL)


def is_remote(path: str | PurePath) -> bool:
    """Return whether a path is an address, of any scheme.

    >>> is_remote(Path("s3://films/imdb.csv")), is_remote("films/imdb.csv")
    (True, False)
    """
    return _ADDRESS.match(str(path)) is not None


def show_address(path: str | PurePath) -> str:
    """Return an address with both of its slashes, any other path as it is.

    >>> show_address(Path("s3://films/imdb.csv"))
    's3://films/imdb.csv'
    """
    return _ADDRESS.sub(r"\1://\2", str(path))


def list_remote(path: Path) -> dict[Path, tuple[int, str]]:
    """Return the files at an address, below it, or that match it as a pattern, with size and what tells versions."""
    with connect(path) as (store, place):
        store.invalidate_cache()
        if any(sign in place for sign in "*?["):
            found = store.glob(place, detail=True)
        else:
            found = store.find(place, detail=True)
        scheme = show_address(path).partition("://")[0]
        listed = {}
        for name, facts in sorted(found.items()):
            # Some stores have an object of no bytes for a folder.
            if facts["type"] == "file" and not name.endswith("/"):
                versions = (facts.get(key) for key in ("ETag", "etag", "md5Hash", "blob_id", "LastModified", "mtime"))
                version = str(next(filter(None, versions), ""))
                listed[Path(f"{scheme}://{name.lstrip('/')}")] = facts["size"], version
        return listed


def fetch(path: Path, target: Path) -> None:
    """Copy the file at an address to a local file."""
    with connect(path) as (store, place):
        store.get_file(place, str(target))


def put(file: Path, path: Path) -> None:
    """Copy a local file to an address; stores show it when it is whole."""
    with connect(path) as (store, place):
        store.put_file(str(file), place)


@contextmanager
def connect(path: Path) -> Iterator[tuple[Any, str]]:
    """Give the store of an address, and the place in it; what goes wrong there is one line."""
    from fsspec.core import url_to_fs

    address = show_address(path)
    try:
        yield url_to_fs(address)
    except ImportError as error:
        if address.startswith(_EXTRA):
            raise MissingExtraError(address, "cloud") from error
        raise StorageError(f"Cannot reach {address}: {error}.") from error
    except FileNotFoundError as error:
        raise StorageError(f"Cannot reach {address}: there is no such file or bucket.") from error
    except Exception as error:  # each store raises errors of its own
        if isinstance(error, StorageError):
            raise
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise StorageError(
            f"Cannot reach {address}: {reason}. Check the address, the rights and the credentials."
        ) from error
