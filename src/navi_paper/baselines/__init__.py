"""The baselines that NAVI is compared with: same backbone, same rows, same number of steps."""

from navi_paper.baselines.baseline import Baseline
from navi_paper.baselines.catalogue import BASELINES, load_baseline
from navi_paper.baselines.training import train_baseline

__all__ = ["BASELINES", "Baseline", "load_baseline", "train_baseline"]
