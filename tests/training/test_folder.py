"""The directory of a run."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest

from navi.errors import ConfigError, TrainingError
from navi.training.checkpoint import FOLDER, MARK
from navi.training.folder import drop_checkpoints, find_latest, open_folder, writing


def add_checkpoint(out: Path, step: int) -> Path:
    place = out / FOLDER / f"step-{step:09d}"
    place.mkdir(parents=True)
    (place / MARK).touch()
    return place


def test_a_new_folder_is_made(tmp_path: Path) -> None:
    open_folder(tmp_path / "a" / "b", resume=False, overwrite=False)
    assert (tmp_path / "a" / "b").is_dir()


def test_the_newest_checkpoint_is_found(tmp_path: Path) -> None:
    add_checkpoint(tmp_path, 9)
    newest = add_checkpoint(tmp_path, 10)
    assert find_latest(tmp_path) == newest


def test_a_folder_without_checkpoints_has_no_newest(tmp_path: Path) -> None:
    assert find_latest(tmp_path) is None


def test_a_run_is_not_written_over_by_chance(tmp_path: Path) -> None:
    add_checkpoint(tmp_path, 9)
    with pytest.raises(
        ConfigError, match=r"holds a run that stands at step-000000009. Resume it \(--resume\), overwrite"
    ):
        open_folder(tmp_path, resume=False, overwrite=False)


def test_a_finished_model_is_not_written_over_by_chance(tmp_path: Path) -> None:
    (tmp_path / "pretrain.json").touch()
    with pytest.raises(ConfigError, match="holds a finished model"):
        open_folder(tmp_path, resume=False, overwrite=False)


def test_a_run_is_written_over_when_that_is_asked_for(tmp_path: Path) -> None:
    add_checkpoint(tmp_path, 9)
    for name in ("pretrain.json", "metrics.jsonl", "samples.txt"):
        (tmp_path / name).touch()
    open_folder(tmp_path, resume=False, overwrite=True)
    assert list(tmp_path.iterdir()) == []


def test_resuming_leaves_everything(tmp_path: Path) -> None:
    place = add_checkpoint(tmp_path, 9)
    (tmp_path / "metrics.jsonl").touch()
    open_folder(tmp_path, resume=True, overwrite=False)
    assert place.is_dir()
    assert (tmp_path / "metrics.jsonl").exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_with_files_of_others_is_refused(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(ConfigError, match=r"files that are not a run's, README.md among them"):
        open_folder(tmp_path, resume=False, overwrite=overwrite)
    assert (tmp_path / "README.md").read_text() == "mine"


def test_a_run_that_died_before_its_first_checkpoint_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("{}\n")
    open_folder(tmp_path, resume=False, overwrite=False)
    assert not (tmp_path / "metrics.jsonl").exists()


def test_a_folder_below_a_file_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"Cannot write to .*file.*: Not a directory"):
        open_folder(tmp_path / "file" / "model", resume=False, overwrite=False)


def test_a_read_only_folder_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(ConfigError, match=r"Cannot write to .*: Read-only file system. Give a directory"):
        open_folder(tmp_path, resume=False, overwrite=False)


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    with (
        pytest.raises(TrainingError, match=r"Cannot write to .*: No space left on device. The last good"),
        writing(tmp_path),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_checkpoints_are_dropped_and_nothing_else(tmp_path: Path) -> None:
    add_checkpoint(tmp_path, 9)
    (tmp_path / "metrics.jsonl").touch()
    drop_checkpoints(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]
