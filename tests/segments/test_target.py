"""Tests of the directory that appears when it is complete."""

from __future__ import annotations

import pytest

from navi.errors import CorpusError
from navi.segments.target import build, check_target


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
