"""Fixtures of the documentation's tests: the script that runs blocks, and what `navi demo` leaves, in small."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {
    "sampler": {"rows_per_batch": 16, "tables_per_batch": 8},
    "training": {"max_steps": 6, "learning_rate": 1e-3},
}


def load_script() -> ModuleType:
    """Return `scripts/docs.py` as a module."""
    if "navi_docs" not in sys.modules:
        spec = importlib.util.spec_from_file_location("navi_docs", ROOT / "scripts" / "docs.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules["navi_docs"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["navi_docs"])
    return sys.modules["navi_docs"]


@pytest.fixture(scope="session")
def docs() -> ModuleType:
    """The script that finds and runs the documentation's blocks."""
    return load_script()


def make_quick(tiny_backbone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the tiny backbone under the name that the documentation uses, and leave out of training what takes time."""
    from navi.training import TrainingConfig

    monkeypatch.setattr("navi.backbones._find_minilm", lambda: tiny_backbone)
    monkeypatch.setattr("navi.backbones.BASE_FOLDER", tiny_backbone)
    for name, value in {"validate_rows": 16, "workers": 0}.items():
        monkeypatch.setitem(TrainingConfig.__init__.__kwdefaults__, name, value)
    monkeypatch.setenv("COLUMNS", load_script().WIDTH)


@pytest.fixture(scope="session")
def demo(tiny_backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `navi demo` leaves, with twenty rows a table and a model of a few steps."""
    from navi.cli import demo
    from navi.cli.console import Screen
    from navi.training import PretrainConfig, pretrain

    folder = tmp_path_factory.mktemp("world") / "navi-demo"
    run = demo.Demo(folder=folder, screen=Screen(quiet=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "BASE_MODEL", str(tiny_backbone))
        patch.setitem(demo.WORLD, "num_rows", 280)
        make_quick(tiny_backbone, patch)
        demo.make_catalogues(run)
        demo.prepare_corpus(run)
        pretrain(run.corpus, folder / "model", PretrainConfig.from_dict({"backbone": str(tiny_backbone)} | SETTINGS))
    return folder


@pytest.fixture
def quick(tiny_backbone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny backbone under the name that the documentation uses, and short training."""
    make_quick(tiny_backbone, monkeypatch)


@pytest.fixture
def reader(demo: Path, quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a reader who has run the demo, and nothing but that."""
    shutil.copytree(demo, tmp_path / "navi-demo")
    monkeypatch.setattr("navi.backbones.BASE_FOLDER", demo / "model")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def type_command() -> Callable[[str], str]:
    """Run a command in the present folder, `navi` in this process; return what it prints."""
    return run_command


def run_command(command: str) -> str:
    """Run a command and return its stdout; anything but exit code 0 is an error."""
    import shlex

    from typer.testing import CliRunner

    from navi.cli import app

    command = command.replace("\\\n", " ").split(" | ")[0]
    if not command.startswith("navi "):
        done = subprocess.run(command, shell=True, check=True, capture_output=True, text=True)
        return done.stdout
    result = CliRunner().invoke(app, shlex.split(command, comments=True)[1:])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, f"{command}\n{result.output}"
    return result.stdout
