"""Fixtures of the command line: small simulated catalogues, a corpus and a model of them, and a way to type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from navi.cli import app
from navi.simulator import SimulatorConfig, Truth, write_catalogues

Type = Callable[..., Result]
CATALOGUES = {"num_catalogues": 3, "num_rows": 90, "seed": 5}
SETTINGS = """
backbone = "{backbone}"
[prepare]
max_unknown_share = 1.0
max_value_tokens = 6
[sampler]
rows_per_batch = 8
tables_per_batch = 3
[training]
max_steps = 4
validate_rows = 8
sample_rows = 1
log_every = 2
workers = 0
curves = false
"""


@pytest.fixture
def navi_command() -> Type:
    """Run `navi` with these arguments; what a test did not expect is raised."""

    def run(*arguments: object, code: int = 0) -> Result:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        assert "\x1b[" not in result.output
        return result

    return run


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of three simulated catalogues; do not change it."""
    folder = tmp_path_factory.mktemp("films")
    write_catalogues(folder, SimulatorConfig(**CATALOGUES))
    return folder


@pytest.fixture(scope="session")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    """What is true of the catalogues."""
    return write_catalogues(tmp_path_factory.mktemp("films-again"), SimulatorConfig(**CATALOGUES))


@pytest.fixture(scope="session")
def settings_file(tiny_backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Settings under which preparing and pretraining take a second."""
    file = tmp_path_factory.mktemp("settings") / "navi.toml"
    file.write_text(SETTINGS.format(backbone=tiny_backbone))
    return file


@pytest.fixture(scope="session")
def corpus(tables: Path, settings_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus that `navi prepare` makes of the catalogues; do not change it."""
    folder = tmp_path_factory.mktemp("prepared") / "corpus"
    arguments = ["prepare", str(tables), "-o", str(folder), "--config", str(settings_file), "--workers", "1"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture(scope="session")
def model(corpus: Path, settings_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model that `navi pretrain` learns from the corpus in a few steps; do not change it."""
    folder = tmp_path_factory.mktemp("trained") / "model"
    result = CliRunner().invoke(app, ["pretrain", str(corpus), "-o", str(folder), "--config", str(settings_file)])
    assert result.exit_code == 0, result.output
    return folder
