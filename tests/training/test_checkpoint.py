"""Checkpoints: whole or not there at all."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
import torch
from torch.optim import AdamW

from navi.errors import TrainingError
from navi.training.checkpoint import (
    MARK,
    OPTIMIZER,
    STATE,
    WEIGHTS,
    RunState,
    check_identity,
    list_checkpoints,
    load_state,
    load_tensors,
    save_checkpoint,
)
from navi.training.optimizer import take_step

IDENTITY = {"corpus": "abc", "training.seed": 0}


class Learner:
    """A small model with an optimiser that has moved."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3))
        self.optimizer = AdamW(self.model.parameters(), fused=True)
        self.learn()

    def learn(self) -> None:
        self.optimizer.zero_grad()
        self.model(torch.linspace(0, 1, 8).view(2, 4)).pow(3).sum().backward()
        take_step(self.optimizer, torch.tensor(True))

    def read(self) -> list[torch.Tensor]:
        moments = [tensor for state in self.optimizer.state.values() for _, tensor in sorted(state.items())]
        return [tensor.detach().clone() for tensor in [*self.model.parameters(), *moments]]

    def save(self, folder: Path, step: int, keep: int = 2) -> Path:
        return save_checkpoint(folder, self.model, self.optimizer, RunState(step=step), IDENTITY, keep=keep)


def fill_the_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_weights_and_optimiser_come_back_bit_for_bit(tmp_path: Path) -> None:
    one, other = Learner(0), Learner(1)
    load_tensors(one.save(tmp_path, 5), other.model, other.optimizer)
    assert all(torch.equal(a, b) for a, b in zip(one.read(), other.read(), strict=True))
    one.learn()
    other.learn()
    assert all(torch.equal(a, b) for a, b in zip(one.read(), other.read(), strict=True))


def test_the_state_comes_back_exactly(tmp_path: Path) -> None:
    learner = Learner(0)
    state = RunState(step=3, validations=1, max_tokens=70, window=[0.1, 1 / 3], seconds=1.5, sizes={"metrics.jsonl": 9})
    place = save_checkpoint(tmp_path, learner.model, learner.optimizer, state, IDENTITY, keep=2)
    assert load_state(place) == (state, IDENTITY)


def test_an_optimiser_that_has_not_moved_is_saved_too(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = AdamW(model.parameters(), fused=True)
    place = save_checkpoint(tmp_path, model, optimizer, RunState(), IDENTITY, keep=1)
    load_tensors(place, model, optimizer)
    assert optimizer.state_dict()["state"] == {}


def test_the_newest_are_kept_in_order(tmp_path: Path) -> None:
    learner = Learner(0)
    for step in (5, 10, 100, 2000):
        learner.save(tmp_path, step, keep=3)
    assert [place.name for place in list_checkpoints(tmp_path)] == [
        "step-000000010",
        "step-000000100",
        "step-000002000",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000010", "step-000000100", "step-000002000"]


def test_one_without_its_mark_is_no_checkpoint(tmp_path: Path) -> None:
    learner = Learner(0)
    learner.save(tmp_path, 5)
    (learner.save(tmp_path, 6) / MARK).unlink()
    assert [place.name for place in list_checkpoints(tmp_path)] == ["step-000000005"]


def test_a_partly_written_one_is_written_again_and_leftovers_are_cleared(tmp_path: Path) -> None:
    learner = Learner(0)
    (tmp_path / "step-000000007").mkdir()
    (tmp_path / "step-000000007" / STATE).write_text("{")
    (tmp_path / ".unfinished-step-000000006-1").mkdir()
    learner.save(tmp_path, 7)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000007"]
    assert load_state(tmp_path / "step-000000007")[0].step == 7


def test_one_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    learner = Learner(0)
    before = (learner.save(tmp_path, 5) / WEIGHTS).stat().st_mtime_ns
    assert (learner.save(tmp_path, 5) / WEIGHTS).stat().st_mtime_ns == before


def test_a_full_disk_is_one_line_and_the_last_checkpoint_survives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = Learner(0)
    learner.save(tmp_path, 5)
    monkeypatch.setattr(os, "fsync", fill_the_disk)
    with pytest.raises(
        TrainingError, match=r"step 6 in .*: No space left on device. .* good checkpoint is step-000000005"
    ):
        learner.save(tmp_path, 6, keep=1)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000005"]
    load_tensors(tmp_path / "step-000000005", learner.model, learner.optimizer)


def test_a_disk_that_fills_while_weights_are_written_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("navi.training.checkpoint.save_file", fill_the_disk)
    with pytest.raises(TrainingError, match=r"No space left on device. There is no earlier checkpoint. Make room"):
        Learner(0).save(tmp_path, 6)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TrainingError, match=r"Cannot save a checkpoint of step 1 in .*file"):
        Learner(0).save(tmp_path / "file" / "checkpoints", 1)


@pytest.mark.parametrize("name", [WEIGHTS, OPTIMIZER])
def test_damaged_tensors_are_told(tmp_path: Path, name: str) -> None:
    learner = Learner(0)
    place = learner.save(tmp_path, 5)
    (place / name).write_bytes(b"damage")
    with pytest.raises(TrainingError, match=r"step-000000005 is damaged.*Delete it"):
        load_tensors(place, learner.model, learner.optimizer)


def test_a_damaged_state_is_told(tmp_path: Path) -> None:
    place = Learner(0).save(tmp_path, 5)
    (place / STATE).write_text('{"state": {"steps": 1}, "identity": {}}')
    with pytest.raises(TrainingError, match=r"step-000000005 is damaged.*steps"):
        load_state(place)


def test_weights_of_another_model_are_told(tmp_path: Path) -> None:
    place = Learner(0).save(tmp_path, 5)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3))
    with pytest.raises(TrainingError, match=r"of another model: 1.bias is not in both"):
        load_tensors(place, model, AdamW(model.parameters(), fused=True))


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    place = Learner(0).save(tmp_path, 5)
    assert sorted(path.name for path in place.iterdir()) == sorted([MARK, OPTIMIZER, STATE, WEIGHTS])
    assert all(not path.read_bytes().startswith((b"\x80", b"PK")) for path in place.iterdir())


def test_the_same_identity_passes(tmp_path: Path) -> None:
    check_identity(dict(IDENTITY), dict(reversed(IDENTITY.items())), tmp_path)


def test_another_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"the corpus has changed since \(fingerprint abc, now xyz\)"):
        check_identity(IDENTITY, IDENTITY | {"corpus": "xyz"}, tmp_path)


def test_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    changed = IDENTITY | {"training.seed": 1, "training.zeal": 2}
    with pytest.raises(TrainingError, match=r"training.seed was 0 and is now 1, and 1 more settings differ"):
        check_identity(IDENTITY, changed, tmp_path)


def test_a_moved_checkpoint_still_loads(tmp_path: Path) -> None:
    learner = Learner(0)
    shutil.move(learner.save(tmp_path / "a", 5), tmp_path / "b")
    load_tensors(tmp_path / "b", learner.model, learner.optimizer)
