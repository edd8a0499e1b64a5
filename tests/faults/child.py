"""A process that runs `navi`, and may be killed at one of its writes, lose its rights there, or have little room.

`tests/faults/conftest.py` runs it with these globals: ARGUMENTS, FOLDER to work in, OUTPUT for all that it prints,
STOP_AT (number of the write, from 0, or None), REVOKED (a folder that can then no longer be written to; None kills),
ROOM (bytes that a file may have, or None), DEADLY (whether one byte more kills) and STATES (a folder for a copy of
what the process would leave behind if it were killed, INPUTS left out, made before each of its writes; or None).
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import sys
import tempfile

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate", "shutil.rmtree", "ctypes.dlsym")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT

os.chdir(FOLDER)  # noqa: F821
if os.path.isdir("tmp"):  # noqa: PTH112
    tempfile.tempdir = os.path.abspath("tmp")  # noqa: PTH100
printed = os.open(OUTPUT, os.O_WRONLY)  # noqa: F821
os.dup2(printed, 1)
os.dup2(printed, 2)
sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
if ROOM is not None:  # noqa: F821
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM))  # noqa: F821
    if DEADLY:  # noqa: F821
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
if REVOKED is not None:  # noqa: F821
    # Root may write anywhere: it does without that right.
    ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
seen, is_copying = 0, False


def count(event: str, arguments: tuple[object, ...]) -> None:
    """Count the changes that are made to files, copy what is there before each, and die at the one that is wanted."""
    global seen, is_copying
    if is_copying:
        return
    if event in CHANGES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES):
        if STATES is not None:  # noqa: F821
            is_copying = True
            shutil.copytree(".", f"{STATES}/{seen}", symlinks=True, ignore=lambda at, _: INPUTS if at == "." else ())  # noqa: F821
            is_copying = False
        seen += 1
        if seen == (STOP_AT or 0) + 1 and STOP_AT is not None:  # noqa: F821
            if REVOKED is None:  # noqa: F821
                signal.raise_signal(signal.SIGKILL)
            os.chmod(REVOKED, 0o555)  # noqa: F821, PTH101


sys.addaudithook(count)
sys.argv = ["navi", *ARGUMENTS]  # noqa: F821
from navi.cli import main  # noqa: E402

try:
    main()
finally:
    total = seen
    with open(OUTPUT + ".writes", "w") as file:  # noqa: F821, PTH123
        file.write(str(total))
    sys.stdout.flush()
    sys.stderr.flush()
