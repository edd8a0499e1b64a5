"""Learning curves as a picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from navi.training.curves import can_draw, draw_curves

TRAIN = [{"step": 2, "loss": 3.0, "masked": 2.0, "high": None}, {"step": 4, "loss": 2.0, "masked": None}]
VALIDATION = [{"step": 0, "masked_loss": 3.0, "value_accuracy": 0.1}, {"step": 4, "masked_loss": 2.0}]


def test_a_picture_is_drawn_even_of_incomplete_lines(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert can_draw()
    draw_curves(TRAIN, VALIDATION, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_there_is_no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not can_draw()
