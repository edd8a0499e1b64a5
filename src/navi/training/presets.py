"""Settings by name: the default, the paper's, and the ablations of either."""

from __future__ import annotations

from typing import Any

from navi.errors import ConfigError
from navi.training.config import PretrainConfig

PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {
        "model": {
            "attribute_gate": False,
            "local_head_share": 0.0,
            "header_attribute": False,
            "row_words": False,
        },
        "masking": {"header_share": 0.4, "value_share": 0.4, "unknown_attribute_rate": 0.0},
        "sampler": {"rows_per_batch": 32, "tables_per_batch": 4},
        "alignment": {"low_negatives": "table", "same_value_negatives": True, "row_weight": 0.0, "column_weight": 0.0},
        "training": {"learning_rate": 3e-5, "new_learning_rate": 3e-5},
    },
}
"""What each preset sets otherwise than the dataclasses' defaults."""

ABLATIONS: dict[str, dict[str, Any]] = {
    "without_attributes": {"model": {"attribute_embedding": False, "header_attribute": False}},
    "without_segment_masking": {"masking": {"whole_spans": False}},
    "without_alignment": {"alignment": {"weight": 0.0, "column_weight": 0.0}},
    "random_routing": {"alignment": {"random_routing": True}},
}
"""What each ablation of the paper changes in a preset."""


def make_preset(name: str = "default", ablation: str | None = None) -> PretrainConfig:
    """Return the settings of a preset, changed by an ablation if one is named.

    >>> make_preset("paper", "without_alignment").alignment.weight
    0.0
    """
    config = PretrainConfig.from_dict(_find(PRESETS, name, "preset"))
    if ablation is None:
        return config
    return PretrainConfig.from_dict(_find(ABLATIONS, ablation, "ablation"), base=config)


def _find(known: dict[str, dict[str, Any]], name: str, what: str) -> dict[str, Any]:
    if name not in known:
        raise ConfigError(f"Unknown {what} '{name}'. Expected one of {', '.join(known)}.")
    return known[name]
