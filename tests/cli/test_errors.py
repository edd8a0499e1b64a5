from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from navi.cli.errors import Commands
from navi.errors import ConfigError, MissingExtraError, TrainingError


def raise_in_verb(error, *arguments):
    """Return what comes of a verb that raises an error."""
    app = typer.Typer(cls=Commands, pretty_exceptions_enable=False)

    @app.callback()
    def group(context: typer.Context, debug: bool = False):
        context.obj = {"debug": debug}

    @app.command()
    def verb():
        raise error

    return CliRunner().invoke(app, ["verb", *arguments])


class StoppedError(TrainingError):
    exit_code = 143


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("seed must be at least 0."), 2),
        (MissingExtraError("Excel", "excel"), 2),
        (TrainingError("no space is left."), 1),
        (StoppedError("Stopped by SIGTERM."), 143),
    ],
)
def test_an_error_is_one_line_with_its_exit_code(error, code):
    result = raise_in_verb(error)
    assert result.stderr == f"navi: {error}\n"
    assert result.stdout == ""
    assert result.exit_code == code


def test_a_message_of_several_lines_becomes_one():
    assert raise_in_verb(ConfigError("first\n  second")).stderr == "navi: first second\n"


def test_the_systems_own_errors_name_the_file():
    result = raise_in_verb(PermissionError(13, "Permission denied", "out.parquet"))
    assert result.stderr == "navi: out.parquet: Permission denied.\n"
    assert result.exit_code == 1


def test_ctrl_c_leaves_with_130():
    result = raise_in_verb(KeyboardInterrupt())
    assert result.stderr == "navi: Interrupted.\n"
    assert result.exit_code == 130


def test_debug_lets_the_error_through_wherever_it_stands():
    error = ConfigError("seed must be at least 0.")
    assert raise_in_verb(error, "--debug").exception is error


def test_a_mistake_of_ours_is_not_hidden():
    error = ZeroDivisionError()
    assert raise_in_verb(error).exception is error
