"""The weights of a backbone under BERT's own names, with a head for masked tokens in any case."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn
from transformers import BertConfig

from navi.model import load_backbone

LAYERS, HEAD = "encoder.layer.", "cls.predictions."


@dataclass(frozen=True, kw_only=True)
class Backbone:
    """What a baseline starts from."""

    config: BertConfig
    """Its shape; without dropout of attention, as NAVI has none either."""
    weights: dict[str, Tensor]
    """Its weights: `embeddings.`, `encoder.layer.` and `cls.predictions.`."""
    cold_head: bool
    """Whether the head for masked tokens was made anew, because the backbone brought none."""

    def copy_to(self, module: nn.Module, prefix: str = "") -> None:
        """Copy every weight that fits into a module of transformers, whose encoder has this prefix."""
        state = module.state_dict()
        renamed = {name if name.startswith(HEAD) else prefix + name: tensor for name, tensor in self.weights.items()}
        fitting = {
            name: tensor for name, tensor in renamed.items() if name in state and state[name].shape == tensor.shape
        }
        module.load_state_dict(fitting, strict=False)


def read_backbone(name: str | Path) -> Backbone:
    """Return the weights that NAVI would start from; a head that is made anew is the same for the same random state."""
    model = load_backbone(name, local_head_share=0.0)
    known = BertConfig().to_dict()
    shape = {key: entry for key, entry in model.config.to_dict().items() if key in known and key not in _DROPPED}
    renamed = {}
    for full_name, tensor in model.state_dict().items():
        family, rest = full_name.split(".", 1) if "." in full_name else ("", full_name)
        if family in _FAMILIES:
            renamed[_FAMILIES[family] + rest] = tensor.detach().clone()
    return Backbone(config=BertConfig(**shape), weights=renamed, cold_head=bool(model.config.cold_head))


_DROPPED = ("architectures", "model_type", "transformers_version", "_name_or_path", "dtype")
_FAMILIES = {"embeddings": "embeddings.", "layers": LAYERS, "head": HEAD}
