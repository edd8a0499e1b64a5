"""The package as a user installs it: one wheel in an empty environment, without the repository and offline."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NO_NETWORK = """
import socket

def refuse(self, address):
    raise OSError(f"the network was asked for: {address}")

socket.socket.connect = refuse
"""
TABLES = {
    "a.csv": "film,released,running time\nAlien,1979,117\nHeat,1995,170\nUp,2009,96\n",
    "b.csv": "Movie Title;Year;Minutes\nUp;2009;96\nBrazil;1985;132\nAlien;1979;117\n",
}


def run(*command: str | Path, **settings: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        env=os.environ | {"PYTHONPATH": ""} | settings,
        cwd=settings.get("HOME"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_a_wheel_below_100_mb_matches_a_folder_offline(tmp_path):
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stat().st_size < 100e6
    home, films, folder = tmp_path / "home", tmp_path / "films", tmp_path / "venv"
    for made in (home, films):
        made.mkdir()
    for name, text in TABLES.items():
        (films / name).write_text(text)
    venv.create(folder, with_pip=True)
    run(folder / "bin" / "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    (packages / "sitecustomize.py").write_text(NO_NETWORK)
    shown = run(folder / "bin" / "navi", "match", films, HOME=str(home), XDG_CACHE_HOME=str(home))
    for pair in (("film", "Movie Title"), ("released", "Year"), ("running time", "Minutes")):
        assert any(all(header in line for header in pair) for line in shown.splitlines()), shown
