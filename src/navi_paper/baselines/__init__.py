"""The baselines that NAVI is compared with: same backbone, same rows, same number of steps."""

from navi_paper.baselines.base import Baseline
from navi_paper.baselines.training import BASELINES, load_baseline, train_baseline

__all__ = ["BASELINES", "Baseline", "load_baseline", "train_baseline"]
