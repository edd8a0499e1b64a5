"""The README is run: its blocks in a folder with tables, its tree beside the source."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
SOURCE = ROOT / "src" / "navi"


@pytest.fixture(scope="module")
def conftest():
    """The fixtures of the documentation's tests, as a module."""
    spec = importlib.util.spec_from_file_location("navi_docs_conftest", ROOT / "tests" / "docs" / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def docs(conftest):
    return conftest.load_script()


@pytest.fixture
def reader(conftest, tiny_backbone, tmp_path, monkeypatch):
    """The folder of a reader with tables of their own, one of them with gaps."""
    from navi.simulator import SimulatorConfig, write_catalogues

    conftest.make_quick(tiny_backbone, monkeypatch)
    films = tmp_path / "films"
    write_catalogues(films, SimulatorConfig(num_rows=90, num_catalogues=4))
    for name in ("imdb.csv", "kinothek.jsonl"):
        next(films.glob(f"*{Path(name).suffix}")).rename(films / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_block_of_the_readme_runs(docs, conftest, reader):
    page = docs.Page(conftest.run_command)
    ran = []
    for block in docs.find_blocks(README):
        if block.language in docs.RUNNABLE and not block.reason:
            page.run(block)
            ran.append(block.language)
    assert {"sh", "python"} <= set(ran)


def test_blocks_that_are_not_run_are_the_two_commands_alone(docs):
    left = [block for block in docs.find_blocks(README) if block.reason]
    assert [block.lines for block in left] == [["make demo", "make test"]]


def test_the_tree_names_all_of_the_source(docs):
    listed = list_tree(next(block for block in docs.find_blocks(README) if "src/navi" in block.text).lines)
    here = {path.relative_to(ROOT).as_posix() for path in listed}
    members = [path for path in SOURCE.iterdir() if path.name not in ("__pycache__", "__init__.py", "__main__.py")]
    wanted = {path.relative_to(ROOT).as_posix() for path in members if path.suffix == ".py" or is_package(path)}
    assert wanted <= here, sorted(wanted - here)
    for path in listed:
        assert path.exists(), path


def is_package(path: Path) -> bool:
    return path.is_dir() and any(path.glob("*.py"))


def list_tree(lines: list[str]) -> list[Path]:
    """Return the paths of a drawn tree: two spaces a level, a comment behind two spaces or more."""
    paths: list[Path] = []
    folders: list[str] = []
    for line in lines:
        depth = (len(line) - len(line.lstrip())) // 2
        name = line.split()[0]
        folders = [*folders[:depth], name.rstrip("/")]
        paths.append(ROOT.joinpath(*folders))
    return paths


def test_each_line_of_the_tree_says_what_is_there(docs):
    tree = next(block for block in docs.find_blocks(README) if "src/navi" in block.text)
    for line in tree.lines:
        assert re.match(r"\s*\S+\s{2,}\S.*", line), line
