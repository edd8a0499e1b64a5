"""The baselines that NAVI is compared with: same backbone, same rows, same number of steps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from navi.errors import ConfigError
from navi.model.runner import PRECISIONS as NAVI_PRECISIONS
from navi_paper.baselines.base import Baseline, read_record
from navi_paper.baselines.cm2 import Cm2
from navi_paper.baselines.haetae import Haetae
from navi_paper.baselines.tapas import Tapas
from navi_paper.baselines.text import Bert
from navi_paper.baselines.training import Progress, train

if TYPE_CHECKING:
    from navi.corpus import Corpus
    from navi.training import PretrainConfig

__all__ = ["BASELINES", "Baseline", "load_baseline", "train_baseline"]

PRECISIONS = {name: dtype for name, dtype in NAVI_PRECISIONS.items() if name != "int8"}
"""Arithmetic that every baseline can do."""
BASELINES: dict[str, type[Baseline]] = {kind.name: kind for kind in (Bert, Tapas, Haetae, Cm2)}
"""Every baseline by its name."""


def train_baseline(
    name: str, corpus: Corpus, out: str | Path, config: PretrainConfig, progress: Progress | None = None
) -> Path:
    """Train a baseline on a corpus's training rows and return its folder `out`, at once if it is there already."""
    return train(_find(name), corpus, Path(out), config, progress)


def load_baseline(
    folder: str | Path, device: str | torch.device | None = None, precision: str | None = None
) -> Baseline:
    """Return a trained baseline, ready to embed; by default in bfloat16 on a GPU, else in float32."""
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    precision = precision or ("bfloat16" if place.type == "cuda" else "float32")
    if precision not in PRECISIONS:
        raise ConfigError(f"Unknown precision '{precision}'. Expected one of {', '.join(PRECISIONS)}.")
    baseline = _find(str(read_record(folder)["name"])).load(folder)
    return baseline.to(place, PRECISIONS[precision])


def _find(name: str) -> type[Baseline]:
    if name not in BASELINES:
        raise ConfigError(f"Unknown baseline '{name}'. Expected one of {', '.join(BASELINES)}.")
    return BASELINES[name]
