"""The documentation is run: every block of every page, and every name that a page points to."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
from dataclasses import is_dataclass
from html import unescape
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
FIXED = ("differences.md", "performance.md")
"""Pages of measurements; their commands name corpora that are not part of the project."""


@pytest.mark.parametrize("name", [name for name in PAGES if name not in FIXED])
def test_every_block_of_a_page_runs_and_its_outputs_have_the_tables_it_shows(name, docs, reader, type_command):
    page = docs.DocsPage(type_command)
    for block in docs.find_blocks(DOCS / name):
        if block.language not in docs.RUNNABLE or block.reason:
            continue
        outputs = page.run(block)
        if block.language == "console":
            for command, output in zip(docs.split_commands(block), outputs, strict=True):
                printed = [" ".join(line.split()) for line in output.splitlines()]
                for heading in docs.find_headings(command.shown):
                    assert " ".join(heading.split()) in printed, f"{name}:{block.line}: {command.text}\n{output}"


@pytest.mark.parametrize("name", PAGES)
def test_a_block_that_is_not_run_has_a_reason_and_a_known_language(name, docs):
    for block in docs.find_blocks(DOCS / name):
        place = f"{name}:{block.line}"
        assert name in FIXED or block.language in (*docs.RUNNABLE, "text", "json", "toml"), place
        assert block.reason is None or len(block.reason.split()) > 1, place


def test_each_verb_has_a_page_of_its_own():
    from navi.cli import app

    verbs = {command.name for command in app.registered_commands} - {"demo"}
    assert verbs <= {page.stem for page in (DOCS / "howto").glob("*.md")}


def test_the_tables_of_settings_are_those_of_the_dataclasses(docs):
    text = docs.CONFIGURATION.read_text(encoding="utf-8")
    assert docs.write_settings(text) == text, "run: python scripts/docs.py settings"


def test_every_config_of_the_package_has_its_table(docs):
    tables = set(re.findall(r"<!-- fields: (\S+) -->", docs.CONFIGURATION.read_text(encoding="utf-8")))
    shown = {docs.find_class(name) for name in tables}
    assert {config.__name__ for config in find_configs()} == {config.__name__ for config in shown}


def find_configs() -> list[type]:
    """Return the frozen dataclasses of both packages that are named like settings."""
    found = []
    for file in sorted((ROOT / "src").rglob("*.py")):
        names = [node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)]
        for name in names:
            if name.endswith("Config"):
                module = ".".join(file.relative_to(ROOT / "src").with_suffix("").parts)
                config = getattr(importlib.import_module(module), name)
                found += [config] if is_dataclass(config) and config.__dataclass_params__.frozen else []
    return found


def test_the_page_of_the_paper_points_to_code_that_is_there():
    text = (DOCS / "paper.md").read_text(encoding="utf-8")
    names = re.findall(r"`(navi(?:_paper)?(?:\.\w+)+)`", text)
    assert len(names) > 20
    for name in names:
        assert find_name(name), name


def find_name(name: str) -> bool:
    """Return whether a dotted name is a module of the package, or leads to something in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_the_page_of_the_paper_points_to_tests_that_are_there():
    text = (DOCS / "paper.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/\S+\.py)::(\w+)`", text)
    assert len(named) > 15
    for file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{test}"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The built documentation: every page in the navigation, every link and anchor there, or building fails."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


def test_the_reference_shows_signatures_and_docstrings(site):
    shown = unescape(re.sub(r"<[^>]+>", "", (site / "reference.html").read_text(encoding="utf-8")))
    for name in ("navi.Navi", "navi.prepare", "navi.pretrain", "navi.Corpus", "NaviEncoder", "Fills", "TableError"):
        assert name in shown, name
    assert re.search(r"explain: bool = False,?\s*\) -> Matches", shown)
    assert "Return the columns of several tables" in shown


def test_the_built_pages_search_and_ask_for_nothing_from_elsewhere(site):
    assert (site / "search" / "search_index.js").exists()
    for page in site.rglob("*.html"):
        assert not re.search(
            r"<(?:script|img)[^>]+src=.?https?:|<link[^>]+stylesheet[^>]+href=.?https?:", page.read_text()
        )


def test_a_session_whose_answer_is_wrong_is_an_error(docs, tmp_path):
    file = tmp_path / "page.md"
    file.write_text("```pycon\n>>> 1 + 1\n3\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match=r"Expected:\s+3\s+Got:\s+2"):
        docs.DocsPage(lambda command: command).run(docs.find_blocks(file)[0])
