"""The encoder: from packed rows to token, header, value, segment, row and attribute embeddings."""

from navi.model.backbone import is_new, load_backbone
from navi.model.encoder import NaviConfig, NaviModel, NaviOutput
from navi.model.runner import Runner

__all__ = ["NaviConfig", "NaviModel", "NaviOutput", "Runner", "is_new", "load_backbone"]
