"""The encoder: from packed rows to token, header, value, segment, row and attribute embeddings."""

from navi.model.backbone import is_new, load_backbone
from navi.model.config import NaviConfig
from navi.model.encoder import NaviModel, NaviOutput

__all__ = ["NaviConfig", "NaviModel", "NaviOutput", "is_new", "load_backbone"]
