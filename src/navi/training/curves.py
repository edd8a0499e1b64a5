"""Learning curves as a picture."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

Lines = list[dict[str, Any]]
CURVES_FILE = "curves.png"


def can_draw() -> bool:
    """Tell whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def draw_curves(train: Lines, validation: Lines, file: Path) -> None:
    """Draw losses and accuracies over the steps: training as lines, validation as dots."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    FigureCanvasAgg(figure)
    losses, accuracies = figure.subplots(1, 2)
    for name in ("loss", "masked", "low", "high", "told_words", "column_agreement"):
        losses.plot(*_pick(train, name), label=f"{_read(name)}, training")
    losses.plot(*_pick(validation, "masked_loss"), "o--", color="black", label="masked, validation")
    for name in ("header_accuracy", "value_accuracy"):
        accuracies.plot(*_pick(train, name), alpha=0.5, label=f"{_read(name)}, training")
    for name in ("header_accuracy_informed", "header_accuracy_blind", "value_accuracy"):
        accuracies.plot(*_pick(validation, name), "o--", label=f"{_read(name)}, validation")
    for axes, title in ((losses, "loss"), (accuracies, "token accuracy")):
        axes.set(xlabel="step", title=title)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    accuracies.set_ylim(0.0, 1.0)
    figure.savefig(file, dpi=120)


def _pick(lines: Lines, name: str) -> tuple[list[int], list[float]]:
    """Return the steps and values of an entry, lines without it left out."""
    points = [(line["step"], line[name]) for line in lines if line.get(name) is not None]
    return [step for step, _ in points], [value for _, value in points]


def _read(name: str) -> str:
    return name.replace("_accuracy", "").replace("_", " ")
