"""The command line: help, errors and exit codes, --json, quiet, progress, and the verbs embed, report, evaluate."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import webbrowser
from time import monotonic

import pytest
from typer.testing import CliRunner

from navi.backbones import BASE_FOLDER
from navi.cli import app
from navi.errors import ConfigError, MissingExtraError, TrainingError
from navi.report import Page, Section, save_page
from navi.version import VERSION

VERBS = [command.name for command in app.registered_commands]
ASKING = ("embed", "impute", "match", "name", "search")
"""Verbs that ask a model."""


def run_python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=os.environ | environment
    )


def complete(words: str) -> list[str]:
    """What a shell offers after these words."""
    count = str(len(words.split()) - 1)
    return run_python("-m", "navi", _NAVI_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=count).stdout.split()


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_lists_a_verb_and_the_help_of_the_verb_has_an_example(verb, navi_command):
    assert f" {verb} " in navi_command("--help").stdout
    shown = navi_command(verb, "--help").stdout
    assert f"navi {verb}" in shown.split("Example")[1]
    assert verb not in ASKING or "navi-base" in shown


def test_help_comes_soon_and_imports_nothing_heavy():
    started = monotonic()
    assert run_python("-m", "navi", "--version").stdout == f"navi {VERSION}\n"
    assert monotonic() - started < 5
    heavy = ("torch", "transformers", "numpy", "pyarrow", "pandas", "navi.corpus", "navi.training")
    result = run_python("-c", f"import sys, navi.cli; print([name for name in {heavy!r} if name in sys.modules])")
    assert result.stdout.strip() == "[]"


def test_verbs_and_choices_are_completed_by_the_shell():
    assert set(complete("navi pre")) == {"prepare", "pretrain"}
    assert complete("navi pretrain corpus --preset p") == ["paper"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("prepair",), "No such command 'prepair'. Did you mean 'prepare', "),
        (("inspect", "films", "--foo"), "No such option: --foo"),
        (("unify", "films"), "Missing option '--out' / '-o'. See `navi unify --help`."),
        (("link", "a.csv", "-k", "many"), "Invalid value for '-k': "),
        (("embed", "films", "-o", "v.parquet", "--kind", "words"), "'words' is not one of 'rows', 'segments'"),
    ],
)
def test_what_is_mistyped_is_one_line(arguments, message, navi_command):
    said = navi_command(*arguments, code=2).stderr
    assert said.startswith("navi: ")
    assert message in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("verb", ["link", "match"])
def test_one_table_beside_a_file_that_cannot_be_read_is_an_error_that_says_why(tmp_path, navi_command, verb):
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing more")
    (tmp_path / "good.csv").write_text("title\nnight\nday\n")
    result = navi_command(verb, tmp_path / "bad.parquet", tmp_path / "good.csv", code=2)
    assert f"Cannot read {tmp_path / 'bad.parquet'}" in result.output


def test_a_verb_without_arguments_shows_its_help(navi_command):
    assert "Usage: navi match" in navi_command("match", code=2).output


class StoppedError(TrainingError):
    exit_code = 143


@pytest.fixture
def raise_in_verb(monkeypatch):
    """Run `navi report` as if its library raised an error."""
    from navi import report

    def run(error: BaseException, *arguments: str):
        def fail(folder: object) -> None:
            raise error

        monkeypatch.setattr(report, "load_page", fail)
        return CliRunner().invoke(app, ["report", "results", *arguments])

    return run


@pytest.mark.parametrize(
    ("error", "line", "code"),
    [
        (ConfigError("seed must be at least 0."), "seed must be at least 0.", 2),
        (MissingExtraError("Excel", "excel"), str(MissingExtraError("Excel", "excel")), 2),
        (TrainingError("no space is left."), "no space is left.", 1),
        (StoppedError("Stopped by SIGTERM."), "Stopped by SIGTERM.", 143),
        (ConfigError("first\n  second"), "first second", 2),
        (PermissionError(13, "Permission denied", "out.parquet"), "out.parquet: Permission denied.", 1),
        (KeyboardInterrupt(), "Interrupted.", 130),
    ],
)
def test_an_error_is_one_line_with_its_exit_code(error, line, code, raise_in_verb):
    result = raise_in_verb(error)
    assert (result.stdout, result.stderr, result.exit_code) == ("", f"navi: {line}\n", code)


def test_debug_lets_an_error_through_wherever_it_stands(raise_in_verb):
    error = ConfigError("seed must be at least 0.")
    assert raise_in_verb(error, "--debug").exception is error
    ours = ZeroDivisionError()  # a mistake of ours is never hidden
    assert raise_in_verb(ours).exception is ours


def test_a_line_of_a_pipe_is_wide_and_the_width_that_a_user_sets_is_kept(catalogues, navi_command, monkeypatch):
    wide = navi_command("inspect", catalogues, "--short").stdout
    assert 60 < max(map(len, wide.splitlines())) <= 140
    monkeypatch.setenv("COLUMNS", "60")
    narrow = navi_command("inspect", catalogues).stdout
    assert max(len(line) for line in narrow.splitlines() if "…" in line or "  " in line) <= 60


def test_of_several_processes_the_first_alone_speaks(catalogues, navi_command, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    for flags in ((), ("--json",)):
        assert navi_command("inspect", catalogues, *flags).output == ""


@pytest.fixture
def every_report(monkeypatch):
    """Lines of progress come with every report, not every twenty seconds."""
    from navi.cli import console

    monkeypatch.setattr(console, "SECONDS_BETWEEN_LINES", 0.0)


@pytest.mark.usefixtures("every_report")
def test_without_a_terminal_progress_is_lines_on_stderr(catalogues, navi_command):
    result = navi_command("inspect", catalogues, "--json")
    lines = [line for line in result.stderr.splitlines() if line.startswith("Reading tables: ")]
    assert lines
    assert " of 5, " in lines[-1]
    assert " rows/s" in lines[-1]
    assert json.loads(result.stdout)["tables"]
    assert navi_command("inspect", catalogues, "--quiet").stderr == ""


@pytest.mark.usefixtures("every_report")
def test_training_shows_losses_rates_and_the_time_left_once_it_is_known(capsys):
    from navi.cli.console import Screen
    from navi.training import StepReport

    first = StepReport(step=1, num_steps=200, epoch=1, seconds_left=None)
    metrics = {"loss": 3.5, "masked": 3.4, "low": None, "rows_per_second": 16.25, "tokens_per_second": 1234.0}
    later = StepReport(step=10, num_steps=200, epoch=1, seconds_left=125.0, metrics=metrics, note="Memory ran out.")
    with Screen().follow() as meter:
        meter.wait("Loading")
        for report in (first, later):
            meter.show_training(report)
    assert capsys.readouterr().err.splitlines() == [
        "Loading …",
        "Epoch 1: 1 of 200",
        "Memory ran out.",
        "Epoch 1: 10 of 200, loss 3.500, masked 3.400, low –, 16.2 rows/s, 1,234 tokens/s, 2 min 05 s left",
    ]


# navi report


@pytest.fixture
def results(tmp_path):
    """A folder with a page's content, the page itself not yet written."""
    folder = tmp_path / "results"
    save_page(Page("Films", "", (Section("Scores <b>"),)), folder)
    return folder


def test_a_terminal_that_is_not_utf_8_gets_question_marks(tmp_path):
    (tmp_path / "日本.csv").write_text("タイトル,年\n東京物語,1953\n七人の侍,1954\n", encoding="utf-8")
    command = [sys.executable, "-m", "navi", "inspect", str(tmp_path), "--backbone", "minilm"]
    environment = os.environ | {"PYTHONIOENCODING": "latin-1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert b"??: 2 rows" in done.stdout


def test_our_own_signs_are_spelled_where_a_terminal_cannot_show_them(tmp_path):
    (tmp_path / "long.csv").write_text(f"title,text\nAlien,{'very ' * 40}\nHeat,short\n")
    environment = {"PYTHONIOENCODING": "ascii", "COLUMNS": "80", "PYTHONPATH": os.pathsep.join(sys.path)}
    shown = run_python("-m", "navi", "inspect", str(tmp_path), "--backbone", "minilm", **environment).stdout
    assert re.search(r"very [very ]*\.", shown)
    assert "?" not in shown


def test_the_page_is_written_beside_its_content_as_markdown_and_opened_if_asked(
    results, navi_command, tmp_path, monkeypatch
):
    assert navi_command("report", results).stdout == f"Written: {results / 'report.html'}\n"
    assert "Scores &lt;b&gt;" in (results / "report.html").read_text()
    tables = tmp_path / "tables.md"
    printed = json.loads(navi_command("report", results, "--tables", tables, "--json").stdout)
    assert printed == {"page": str(results / "report.html"), "tables": str(tables), "sections": ["Scores <b>"]}
    assert "## Scores &lt;b&gt;" in tables.read_text(encoding="utf-8")
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    navi_command("report", results, "--open")
    assert opened == [(results / "report.html").resolve().as_uri()]


# navi evaluate


@pytest.fixture
def evaluate(corpus_dir, tmp_path, navi_command):
    """Run `navi evaluate` on few rows."""

    def run(*arguments, code=0):
        amounts = ("--rows", 8, "--runs", 2, "--max-steps", 2)
        return navi_command("evaluate", corpus_dir, "-o", tmp_path / "results", *amounts, *arguments, code=code)

    return run


def test_an_evaluation_counts_cells_and_says_what_was_left_out(evaluate, tmp_path):
    printed = evaluate("--models", "bert", "--tasks", "generative,clustering").stdout
    assert "1 cell with figures" in printed
    assert "Left out: clustering: there is no gold for concepts (--gold)." in printed
    assert f"navi report {tmp_path / 'results'} --open" in printed.replace("\n", "")
    assert (tmp_path / "results" / "report.html").is_file()


def test_a_model_that_is_there_is_evaluated_as_it_is(evaluate, model_dir):
    arguments = ("--take", f"navi={model_dir}", "--models", "navi", "--tasks", "generative", "--json")
    printed = json.loads(evaluate(*arguments).stdout)
    assert (printed["done"], printed["failed"]) == (1, [])


def test_a_model_of_another_backbone_is_refused_in_one_line(evaluate):
    arguments = ("--take", f"navi={BASE_FOLDER}", "--models", "navi", "--tasks", "generative")
    message = evaluate(*arguments, code=2).stderr
    assert f"navi: The model 'navi' in {BASE_FOLDER} has another backbone than " in message
    assert message.count("\n") == 1


def test_a_cell_that_fails_is_listed(evaluate, tmp_path):
    arguments = ("--take", f"navi={tmp_path}", "--models", "navi", "--tasks", "generative")
    assert "1 cell failed; the same command tries them again." in evaluate(*arguments, code=1).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--take", "navi"), "--take wants NAME=MODEL, got 'navi'"),
        (("--take", "navi=m", "--models", "bert"), "The model 'navi' is taken, but not among those compared: bert"),
        (("--seeds", "one"), "--seeds takes whole numbers with commas between them, got 'one'"),
        (("--models", "gpt"), "Unknown model 'gpt'"),
        (("--tasks", "tidying"), "Unknown task 'tidying'"),
        (("--gold", "nowhere"), "There is no gold at nowhere"),
    ],
)
def test_mistakes_in_an_evaluation_are_one_line_with_the_remedy(arguments, message, evaluate):
    assert message in evaluate(*arguments, code=2).stderr.replace("\n", " ")
