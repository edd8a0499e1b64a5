"""Nothing of a user's is lost: what is there stays unless asked, inputs are never written to, hints can be typed."""

from __future__ import annotations

import re
import shlex
import shutil

import pytest

from navi.files import lock
from navi.report import Page, save_page

WRITING = {
    "embed": ("embed", "a.csv", "-o", "out.parquet"),
    "impute": ("impute", "a.csv", "-o", "out/filled.csv"),
    "impute, account": ("impute", "a.csv", "-o", "out/new.csv", "--cells", "out/cells.csv"),
    "name": ("name", "a.csv", "--columns", "year", "--apply", "out.csv"),
    "match, csv": ("match", "a.csv", "b.csv", "--csv", "out.csv"),
    "match, mapping": ("match", "a.csv", "b.csv", "--mapping", "out.json"),
}
"""Commands, and last the file that each writes."""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working folder with two tables."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir(exist_ok=True)
    for name in ("a", "b"):
        lines = [f"film {n},{1990 + n % 9},{'' if n % 5 == 0 else 'drama'}" for n in range(30)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["title,year,genre", *lines, ""]))
    return tmp_path


def list_files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def ask(navi_command, reference_dir):
    """Run a verb with the small model that is kept."""
    return lambda verb, *arguments, code=0: navi_command(
        verb, "--model", reference_dir, "--device", "cpu", *arguments, code=code
    )


@pytest.mark.parametrize("command", WRITING.values(), ids=WRITING)
def test_a_file_that_is_there_stays_unless_it_is_to_be_overwritten(command, place, ask):
    (place / command[-1]).write_text("mine")
    before = list_files(place)
    said = ask(*command, code=2).stderr
    assert f"{command[-1]} exists. Replace it with --overwrite, or give another name." in said
    assert list_files(place) == before
    ask(*command, "--overwrite")
    assert (place / command[-1]).read_bytes() != b"mine"
    assert {path: before[path] for path in (place / "a.csv", place / "b.csv")}.items() <= list_files(place).items()


@pytest.mark.parametrize("out", ["out.parquet", "out"])
def test_two_that_embed_to_one_place_are_kept_apart(out, place, ask):
    with lock(place / out, inside=out == "out"):
        said = ask("embed", "a.csv", "-o", out, code=2).stderr
    assert f"{out} is being written by process" in said
    assert said.count("navi: ") == 1
    ask("embed", "a.csv", "-o", out)


@pytest.mark.parametrize("command", [command for command in WRITING.values() if not command[-1].endswith("parquet")])
def test_inputs_are_never_written_to_even_when_asked(command, place, ask):
    before = list_files(place)
    (place / "link.csv").symlink_to("a.csv")
    for target in ("a.csv", "./a.csv", "link.csv"):
        assert "it is what is read" in ask(*command[:-1], target, "--overwrite", code=2).stderr
    assert list_files(place) == before | {place / "link.csv": before[place / "a.csv"]}


@pytest.mark.parametrize(
    "command",
    [
        ("impute", "a.csv", "-o", "out/x.csv", "--cells", "out/x.csv"),
        ("link", "a.csv", "b.csv", "-o", "out/x.csv", "--clusters", "out/../out/x.csv"),
        ("match", "a.csv", "b.csv", "--write-decisions", "out/x.csv", "--csv", "out/x.csv"),
        ("unify", "a.csv", "b.csv", "-o", "out/x.csv", "--write-spec", "./out/x.csv"),
    ],
    ids=lambda command: command[0],
)
def test_two_things_are_not_written_to_one_file(command, place, ask):
    before = list_files(place)
    said = ask(*command, "--overwrite", code=2).stderr
    assert re.search(r"Cannot write two things to \S*x\.csv\. Give each a name of its own", said)
    assert list_files(place) == before


@pytest.mark.parametrize(
    "command",
    [
        ("match", "a.csv", "b.csv", "--decisions", "out/x.csv", "--csv", "out/x.csv"),
        ("match", "a.csv", "b.csv", "--to", "out/x.csv", "--csv", "out/x.csv"),
        ("unify", "a.csv", "b.csv", "--decisions", "out/x.csv", "-o", "out/x.csv"),
    ],
)
def test_decisions_and_schemas_are_inputs_too(command, place, ask):
    shutil.copy(place / "a.csv", place / "out" / "x.csv")
    before = list_files(place)
    assert "it is what is read" in ask(*command, "--overwrite", code=2).stderr
    assert list_files(place) == before


def test_neither_vectors_nor_an_account_are_written_among_the_tables_unasked(place, ask):
    assert "among the tables of ." in ask("embed", ".", "-o", "rows.parquet", code=2).stderr
    said = ask("impute", "a.csv", "-o", "filled.csv").stdout
    assert "--cells FILE writes it" in said
    assert sorted(path.name for path in place.glob("*.csv")) == ["a.csv", "b.csv", "filled.csv"]
    ask("impute", "a.csv", "-o", "out/filled.csv")
    assert (place / "out" / "filled.cells.csv").is_file()


def test_a_report_replaces_pages_of_ours_alone(place, navi_command):
    save_page(Page("title", "lead"), place / "results")
    for _ in range(2):
        navi_command("report", "results")
    (place / "results" / "report.html").write_text("<p>mine</p>")
    (place / "tables.md").write_text("mine")
    assert "report.html exists. Replace it with --overwrite" in navi_command("report", "results", code=2).stderr
    (place / "results" / "report.html").unlink()
    assert "tables.md exists" in navi_command("report", "results", "--tables", "tables.md", code=2).stderr
    assert (place / "tables.md").read_text() == "mine"
    navi_command("report", "results", "--tables", "tables.md", "--overwrite")


def read_hint(text: str) -> list[str]:
    """Return the command that a verb suggests."""
    return shlex.split(re.search(r"Next, .*?:  navi (.*)", text)[1])


def test_the_hint_after_naming_can_be_typed_twice(place, ask, navi_command):
    for taken in ("named.csv", "named-2.csv"):
        hint = read_hint(ask("name", "a.csv", "--columns", "*").stdout)
        assert hint[-1] == taken
        navi_command(*hint)


def test_the_hints_after_preparing_and_pretraining_can_be_typed(place, navi_command, tiny_backbone):
    (place / "feeds").mkdir()
    for name in ("a.csv", "b.csv"):
        shutil.move(place / name, place / "feeds")
    (place / "model").mkdir()
    said = navi_command("prepare", "feeds", "-o", "corpus", "--backbone", tiny_backbone).stdout
    hint = read_hint(said)
    assert hint == ["pretrain", "corpus", "-o", "model-2"]
    said = navi_command(*hint, "--max-steps", 1, "--rows-per-batch", 4, "--from", tiny_backbone).stdout
    hint = read_hint(said)
    assert hint == ["match", "--model", "model-2", "feeds"]
    navi_command(*hint, "--device", "cpu")
