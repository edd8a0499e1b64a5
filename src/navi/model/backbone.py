"""A NAVI model that starts from a BERT-architecture backbone, or from another NAVI model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from navi.backbones import MANIFEST_FILE, WEIGHTS_FILE, find_backbone
from navi.errors import ModelError
from navi.model.base import unpack_weights
from navi.model.encoder import NaviConfig, NaviModel

NEW_PARAMETERS = ("projection.", "unknown_attribute", "attribute_scale")
"""Prefixes of the parameters that no backbone brings; they start cold and learn at a rate of their own."""
HEAD, WORDS = "head.", "embeddings.word_embeddings.weight"


def load_backbone(name: str | Path, **settings: Any) -> NaviModel:
    """Return a NAVI model with the weights of a backbone; `settings` go to its `NaviConfig`.

    The attribute encoder starts as a copy of two of the backbone's layers. A backbone without a head for masked tokens
    gets one tied to its word embeddings. A NAVI model gives all of its weights, and nothing starts cold. Nothing is
    unpickled and no code of the backbone is run.
    """
    folder = find_backbone(name)
    config, is_navi = _read_config(folder, settings)
    model = NaviModel(config)
    weights = _read_weights(folder)
    if not is_navi:
        weights = _rename(weights, config)
    elif WORDS in weights:  # shared ones are stored once
        weights.setdefault(f"attribute_encoder.{WORDS}", weights[WORDS])
    _check_shapes(weights, model.state_dict(), folder)
    missing, _ = model.load_state_dict(weights, strict=False)
    lost = [key for key in missing if not key.startswith((*NEW_PARAMETERS, HEAD)) and "position_ids" not in key]
    if lost:
        raise ModelError(
            f"The backbone in {folder} lacks {len(lost)} weights, {lost[0]} among them. "
            "Expected a BERT-architecture checkpoint."
        )
    model.config.cold_head = any(key.startswith(HEAD) and "decoder" not in key for key in missing)
    model.config.cold_start = not is_navi
    model.tie_weights()
    if is_navi:
        return model
    with torch.no_grad():
        length = model.embeddings.word_embeddings.weight.norm(dim=1).mean()
        model.attribute_scale.copy_(length)
    return model


def is_new(name: str, config: NaviConfig) -> bool:
    """Tell whether a parameter starts cold: projection, unknown attribute, gate, and a head that was made anew."""
    new = NEW_PARAMETERS if config.cold_start else ()
    return name.startswith((*new, HEAD) if config.cold_head else new)


def _read_config(folder: Path, settings: dict[str, Any]) -> tuple[NaviConfig, bool]:
    """Return the configuration with settings put over it, and whether it is a NAVI model's."""
    file = folder / "config.json"
    try:
        found = json.loads(file.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise ModelError(f"Cannot read {file}: {error}. A backbone folder holds config.json and weights.") from error
    kind = found.get("model_type")
    if kind not in ("bert", NaviConfig.model_type):
        raise ModelError(f"The backbone in {folder} is of type '{kind}'. Expected a BERT-architecture checkpoint.")
    kept = {key: entry for key, entry in found.items() if key not in ("architectures", "model_type", "_name_or_path")}
    return NaviConfig(**{**kept, **settings}), kind != "bert"


def _read_weights(folder: Path) -> dict[str, Tensor]:
    if (folder / MANIFEST_FILE).is_file():
        return unpack_weights(folder)
    file = folder / WEIGHTS_FILE
    if not file.is_file():
        raise ModelError(f"No {WEIGHTS_FILE} in {folder}. Pickled weights are never loaded; convert them first.")
    try:
        return {name: tensor.float() for name, tensor in load_file(file).items()}
    except SafetensorError as error:
        raise ModelError(f"Cannot read {file}: {error}.") from error


def _check_shapes(weights: dict[str, Tensor], expected: dict[str, Tensor], folder: Path) -> None:
    for name, tensor in weights.items():
        if name in expected and tensor.shape != expected[name].shape:
            raise ModelError(
                f"The backbone in {folder} has {name} of shape {tuple(tensor.shape)}, but its config.json asks "
                f"for {tuple(expected[name].shape)}. Take both from the same checkpoint."
            )


def _rename(weights: dict[str, Tensor], config: NaviConfig) -> dict[str, Tensor]:
    """Give the backbone's weights the names they have here, and the attribute encoder its copies."""
    renamed: dict[str, Tensor] = {}
    for full_name, tensor in weights.items():
        name = full_name.removeprefix("bert.").replace(".gamma", ".weight").replace(".beta", ".bias")
        if name.startswith("embeddings.") and "position_ids" not in name:
            renamed[name] = tensor
            renamed[f"attribute_encoder.{name}"] = tensor.clone()
        elif name.startswith("encoder.layer."):
            number, rest = name.removeprefix("encoder.layer.").split(".", 1)
            renamed[f"layers.{number}.{rest}"] = tensor
            for place, chosen in enumerate(config.attribute_layers):
                if chosen == int(number):
                    renamed[f"attribute_encoder.layers.{place}.{rest}"] = tensor.clone()
        elif name.startswith("cls.predictions.") and not name.endswith("decoder.weight"):  # the word embeddings serve
            renamed[HEAD + name.removeprefix("cls.predictions.")] = tensor
    return renamed
