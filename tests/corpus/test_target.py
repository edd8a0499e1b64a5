"""Tests of the directory that appears when it is complete."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from navi.corpus.target import build, check_target, remove_leftovers
from navi.errors import CorpusError


def test_directory_appears_at_the_end(tmp_path):
    target = tmp_path / "deep" / "corpus"
    with build(target) as folder:
        (folder / "file").write_text("content")
        assert not target.exists()
        assert folder.parent == target.parent
    assert (target / "file").read_text() == "content"
    assert [path.name for path in target.parent.iterdir()] == ["corpus"]


def test_failure_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), build(tmp_path / "corpus"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_failure_leaves_what_was_there(tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "corpus.json").write_text("old")
    with pytest.raises(ZeroDivisionError), build(tmp_path / "corpus"):
        raise ZeroDivisionError
    assert (tmp_path / "corpus" / "corpus.json").read_text() == "old"


def test_old_directory_is_replaced_whole(tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "old").write_text("old")
    with build(tmp_path / "corpus") as folder:
        (folder / "new").write_text("new")
    assert [path.name for path in (tmp_path / "corpus").iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


def test_empty_directory_and_nothing_are_fine_targets(tmp_path):
    check_target(tmp_path, overwrite=False)
    check_target(tmp_path / "new", overwrite=False)


def test_corpus_is_replaced_only_when_asked(tmp_path):
    (tmp_path / "corpus.json").write_text("{}")
    check_target(tmp_path, overwrite=True)
    with pytest.raises(CorpusError, match=r"There is a corpus at .* already\. Set overwrite"):
        check_target(tmp_path, overwrite=False)


@pytest.mark.parametrize("overwrite", [False, True])
def test_anything_else_is_never_replaced(tmp_path, overwrite):
    (tmp_path / "diary.txt").write_text("dear")
    for target in (tmp_path, tmp_path / "diary.txt"):
        with pytest.raises(CorpusError, match="exists and is not a corpus; it will not be replaced"):
            check_target(target, overwrite)


def test_place_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CorpusError, match=r"Cannot write to .*file: Not a directory"), build(tmp_path / "file" / "out"):
        pass


@pytest.fixture
def ended():
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_what_a_killed_process_left_is_removed(ended, tmp_path):
    left = tmp_path / f"corpus.tmp-{ended}"
    (left / "scratch").mkdir(parents=True)
    (left / "scratch" / "0.pieces").write_text("half")
    with build(tmp_path / "corpus"):
        assert not left.exists()


def test_what_others_left_or_still_need_stays(ended, tmp_path):
    others = [
        f"corpus.tmp-{os.getppid()}",
        f"corpora.tmp-{ended}",
        f"corpus.tmp-{ended}-mine",
        "corpus.tmp-",
        f"corpus.tmp-{10**30}",
    ]
    for name in others:
        (tmp_path / name).mkdir()
    (tmp_path / f"corpus.tmp-0{ended}").write_text("a file")
    with build(tmp_path / "corpus"):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {*others, f"corpus.tmp-0{ended}", "corpus"}


def test_a_directory_that_is_held_stays_whatever_its_number_says(ended, tmp_path):
    held = tmp_path / f"corpus.tmp-{ended}"
    with build(tmp_path / "other") as folder:
        folder.rename(held)
        remove_leftovers(tmp_path / "corpus")
        assert held.is_dir()
        held.rename(folder)


def test_a_name_with_signs_of_a_pattern_is_taken_as_it_is(ended, tmp_path):
    (tmp_path / f"a.tmp-{ended}").mkdir()
    (tmp_path / f"[a].tmp-{ended}").mkdir()
    remove_leftovers(tmp_path / "[a]")
    assert [path.name for path in tmp_path.iterdir()] == [f"a.tmp-{ended}"]
