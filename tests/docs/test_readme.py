"""The README is run: its blocks in a folder with tables, its tree beside the source."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"


@pytest.fixture
def own_folder(demo: Path, quick, tmp_path, monkeypatch):
    """The folder of a reader with tables of their own, one of them with gaps."""
    from navi.simulator import SimulatorConfig, write_catalogues

    films = tmp_path / "films"
    write_catalogues(films, SimulatorConfig(num_rows=90, num_catalogues=4))
    for name in ("imdb.csv", "kinothek.jsonl"):
        next(films.glob(f"*{Path(name).suffix}")).rename(films / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("navi.backbones.BASE_FOLDER", demo / "model")
    return tmp_path


@pytest.fixture(scope="module")
def tree(docs) -> list[str]:
    """The lines of the drawn tree."""
    lines: list[str] = next(block for block in docs.find_blocks(README) if "src/navi" in block.text).lines
    return lines


def test_every_block_of_the_readme_runs_but_for_the_two_commands(docs, type_command, own_folder):
    page = docs.DocsPage(type_command)
    blocks = [block for block in docs.find_blocks(README) if block.language in docs.RUNNABLE]
    assert [block.lines for block in blocks if block.reason] == [["make demo", "make test"]]
    ran = [block for block in blocks if not block.reason]
    for block in ran:
        page.run(block)
    assert {block.language for block in ran} == {"sh", "python"}


def test_the_tree_names_all_of_the_source(tree):
    listed = list_tree(tree)
    for path in listed:
        assert path.exists(), path
    source = [path for path in (ROOT / "src" / "navi").iterdir() if not path.name.startswith("__")]
    wanted = {path for path in source if path.suffix == ".py" or any(path.glob("*.py"))}
    wanted |= {path.parent for path in (ROOT / "src").glob("*/__init__.py")}
    assert wanted <= set(listed), sorted(wanted - set(listed))


def list_tree(lines: list[str]) -> list[Path]:
    """Return the paths of a drawn tree: two spaces a level, a comment behind two spaces or more."""
    paths: list[Path] = []
    folders: list[str] = []
    for line in lines:
        depth = (len(line) - len(line.lstrip())) // 2
        folders = [*folders[:depth], line.split()[0].rstrip("/")]
        paths.append(ROOT.joinpath(*folders))
    return paths


def test_stages_stand_in_the_tree_in_the_order_in_which_they_may_import(tree):
    stages = runpy.run_path(str(ROOT / "tests" / "test_architecture.py"))["STAGES"]
    drawn = [path.stem for path in list_tree(tree) if path.parent == ROOT / "src" / "navi"]
    assert drawn == [stage for stage in stages if not stage.startswith("__")]


def test_each_line_of_the_tree_says_what_is_there(tree):
    for line in tree:
        assert re.match(r"\s*\S+\s{2,}\S.*", line), line
