from __future__ import annotations

import json

import pytest

AMOUNTS = ("--rows", 8, "--runs", 2)


@pytest.fixture
def evaluate(corpus, settings_file, tmp_path, navi_command):
    def run(*arguments, code=0):
        out = tmp_path / "results"
        return navi_command("evaluate", corpus, "-o", out, "--config", settings_file, *AMOUNTS, *arguments, code=code)

    return run


def test_the_summary_counts_cells_and_says_what_was_left_out(evaluate, tmp_path):
    told = evaluate("--models", "bert", "--tasks", "generative,clustering").stdout
    assert "1 cell with figures" in told
    assert "Left out: clustering: there is no gold for concepts (--gold)." in told
    assert f"navi report {tmp_path / 'results'} --open" in told.replace("\n", "")
    assert (tmp_path / "results" / "report.html").is_file()


def test_a_model_that_is_there_is_taken(evaluate, model):
    told = json.loads(evaluate("--take", f"navi={model}", "--models", "navi", "--tasks", "generative", "--json").stdout)
    assert told["done"] == 1
    assert told["failed"] == []


def test_a_cell_that_fails_is_named(evaluate, tmp_path):
    told = evaluate("--take", f"navi={tmp_path}", "--models", "navi", "--tasks", "generative", code=1).stdout
    assert "1 cell failed; the same command tries them again." in told


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
def test_mistakes_are_one_line_with_the_remedy(evaluate, arguments, message):
    result = evaluate(*arguments, code=2)
    assert message in result.stderr.replace("\n", " ")
