from __future__ import annotations

import os
import subprocess
import sys
from time import monotonic

import pytest

from navi.cli import app
from navi.version import VERSION

VERBS = [command.name for command in app.registered_commands]


def run_python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=os.environ | environment
    )


def test_help_lists_every_verb(navi_command):
    told = navi_command("--help").stdout
    assert all(f" {verb} " in told for verb in VERBS)


def test_no_arguments_show_the_help(navi_command):
    assert "Usage: navi" in navi_command(code=2).output


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_has_an_example(verb, navi_command):
    told = navi_command(verb, "--help").stdout
    assert "Example" in told
    assert f"navi {verb}" in told.split("Example")[1]


def test_the_version_is_told(navi_command):
    assert navi_command("--version").stdout == f"navi {VERSION}\n"


def test_help_comes_soon():
    started = monotonic()
    result = run_python("-m", "navi", "--help")
    assert monotonic() - started < 3
    assert result.returncode == 0


def test_help_imports_nothing_heavy():
    heavy = ("torch", "transformers", "numpy", "pyarrow", "pandas", "navi.corpus", "navi.training")
    result = run_python("-c", f"import sys, navi.cli; print([name for name in {heavy!r} if name in sys.modules])")
    assert result.stdout.strip() == "[]"


def test_verbs_are_completed_by_the_shell():
    result = run_python("-m", "navi", _NAVI_COMPLETE="complete_bash", COMP_WORDS="navi pre", COMP_CWORD="1")
    assert set(result.stdout.split()) == {"prepare", "pretrain"}


def test_choices_are_completed_by_the_shell():
    words = "navi pretrain corpus --preset p"
    result = run_python("-m", "navi", _NAVI_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD="4")
    assert result.stdout.split() == ["paper"]


def test_an_unknown_verb_is_a_users_mistake(navi_command):
    assert "No such command 'prepair'" in navi_command("prepair", code=2).stderr


def test_an_unknown_option_is_a_users_mistake(navi_command):
    assert "No such option: --foo" in navi_command("inspect", "films", "--foo", code=2).stderr


@pytest.mark.parametrize("verb", ["embed", "impute", "match", "name", "search"])
def test_a_verb_that_asks_a_model_says_how_to_name_one(verb, tmp_path, navi_command):
    out = ("-o", tmp_path / "out.parquet") if verb in ("embed", "impute") else ()
    result = navi_command(verb, tmp_path, *out, code=2)
    assert result.stderr == "navi: --model DIR is needed: the model to ask. `navi pretrain` makes one.\n"
