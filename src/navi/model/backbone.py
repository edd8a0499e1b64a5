"""A NAVI model from its folder, or started from a BERT-architecture backbone; and the packed one that comes along."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from navi.backbones import MANIFEST_FILE, WEIGHTS_FILE, find_backbone
from navi.errors import ConfigError, ModelError
from navi.files import digest_file, read_json
from navi.model.encoder import FORMAT_VERSION, NaviConfig, NaviModel
from navi.settings import find_misfit
from navi.version import VERSION

NEW_PARAMETERS = ("projection.", "unknown_attribute", "attribute_scale")
"""Prefixes of the parameters that no backbone brings; they start cold and learn at a rate of their own."""
HEAD, WORDS = "head.", "embeddings.word_embeddings.weight"
COPY_AGAIN, REINSTALL = "Copy the model again.", "Reinstall it: pip install --force-reinstall navi-tables."
SCALE = ".scale"
"""What is put behind a packed matrix's name for the scales of its rows."""


SHAPE: dict[str, tuple[Any, float, float]] = {
    "vocab_size": (int, 1, 1 << 22),
    "hidden_size": (int, 1, 1 << 14),
    "num_hidden_layers": (int, 1, 128),
    "num_attention_heads": (int, 1, 256),
    "intermediate_size": (int, 1, 1 << 16),
    "max_position_embeddings": (int, 1, 1 << 20),
    "type_vocab_size": (int, 1, 64),
    "pad_token_id": (int | None, 0, 1 << 22),
    "hidden_act": (str, 0, 0),
    "hidden_dropout_prob": (float, 0, 1),
    "projection_dropout": (float, 0, 1),
    "layer_norm_eps": (float, 0, 1),
    "initializer_range": (float, 0, 1),
}
"""The entries of a BERT's config.json that are taken over, all others being left where they are: the type of each, and
of numbers the least and the most that is taken for a model's."""
HARMLESS: dict[str, tuple[Any, ...]] = {
    "auto_map": (),
    "trust_remote_code": (False,),
    "use_kernels": (False,),
    "kernel_config": (),
    "quantization_config": (),
    "custom_pipelines": (),
    "attn_implementation": ("eager", "sdpa"),
    "_attn_implementation": ("eager", "sdpa"),
    "experts_implementation": ("eager",),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
}
"""Entries that would have transformers fetch or run code, or that make another model, and what they may be."""


def load_navi(folder: Path, **settings: Any) -> NaviModel:
    """Return the NAVI model in a folder, on the CPU: every tensor there by name, of its shape, and finite."""
    config = read_config(folder) | settings
    if config["model_type"] != NaviConfig.model_type:
        raise ModelError(
            f"{folder} holds a '{config['model_type']}' model, not a NAVI model. It may serve as a backbone: "
            f"navi pretrain CORPUS -o MODEL --from {folder}."
        )
    model = _make_empty(config, folder)
    weights = _read_weights(folder)
    if settings and WORDS in weights and not model.config.shared_words:  # shared ones are stored once
        weights.setdefault(f"attribute_encoder.{WORDS}", weights[WORDS].clone())
    _check_weights(weights, model, folder)
    model.load_state_dict(weights, strict=False, assign=True)
    model.tie_weights()
    for name, buffer in model.named_buffers():  # those that no file holds
        module, _, last = name.rpartition(".")
        made = torch.arange(buffer.shape[1]).expand(1, -1) if last == "position_ids" else torch.zeros(buffer.shape)
        setattr(model.get_submodule(module), last, made.to(buffer.dtype))
    return model


def read_config(folder: Path) -> dict[str, Any]:
    """Return the checked entries of a config.json that a NAVI model is made of, and its `model_type`."""
    file = folder / "config.json"
    found = read_json(file, ModelError, "A model's folder holds config.json, tokenizer.json and weights.")
    kind = found.get("model_type")
    if kind not in ("bert", NaviConfig.model_type):
        raise ModelError(f"The backbone in {folder} is of type '{kind}'. Expected a BERT-architecture checkpoint.")
    if kind == NaviConfig.model_type:
        _check_version(folder, found.get("format_version", 1))
    return {**check_shape(found, file), "model_type": kind}


def check_shape(found: dict[str, Any], file: Path) -> dict[str, Any]:
    """Return the entries of a configuration that a model is made of, all of their types and within their limits."""
    for key, allowed in HARMLESS.items():
        if (entry := found.get(key)) is not None and entry not in allowed:
            raise ModelError(f"{file} has {key} = {entry!r}, which is never followed. Remove it if you trust the rest.")
    known = {key: kind for key, (kind, _, _) in SHAPE.items()} | get_type_hints(NaviConfig.__init__)
    kept = {key: entry for key, entry in found.items() if key in known and key != "kwargs"}
    misfits = (misfit for key, entry in kept.items() if (misfit := find_misfit(entry, known[key], key)))
    if misfit := next(misfits, None) or _find_excess(kept):
        raise ModelError(f"Cannot read {file}: {misfit}. {COPY_AGAIN}")
    return kept


def _check_version(folder: Path, version: Any) -> None:
    if version == FORMAT_VERSION and type(version) is int:
        return
    is_newer = isinstance(version, int) and version > FORMAT_VERSION
    remedy = "Update navi-tables: pip install -U navi-tables." if is_newer else "Pretrain it again: navi pretrain …"
    raise ModelError(
        f"The model in {folder} has format version {version!r}, this is NAVI {VERSION} and reads {FORMAT_VERSION}. "
        f"{remedy.replace('…', 'CORPUS -o MODEL.')}"
    )


def _find_excess(config: dict[str, Any]) -> str | None:
    """Return what is out of range in a configuration, or None."""
    from transformers.activations import ACT2FN

    for key, (_, least, most) in SHAPE.items():
        if isinstance(number := config.get(key), int | float) and not least <= number <= most:
            return f"{key} must lie between {least} and {most}, found {number}"
    if config.get("hidden_act", "gelu") not in ACT2FN:
        return f"hidden_act is {config['hidden_act']!r}, which is not known"
    if config.get("hidden_size", 768) % config.get("num_attention_heads", 12):
        return "hidden_size is not a multiple of num_attention_heads"
    if not 0 <= (config.get("pad_token_id") or 0) < config.get("vocab_size", 1 << 22):
        return f"pad_token_id is {config['pad_token_id']}, beyond vocab_size"
    layers, num_layers = config.get("attribute_layers") or [], config.get("num_hidden_layers", 12)
    if len(layers) > max(2, num_layers) or not all(0 <= layer < num_layers for layer in layers):
        return f"attribute_layers must be some of the {num_layers} layers, found {str(layers)[:60]}"
    return None


def _make_empty(config: dict[str, Any], folder: Path) -> NaviModel:
    """Return the model of a configuration without any weights: it takes no memory, whatever sizes are declared."""
    entries = {key: entry for key, entry in config.items() if key != "model_type"}
    try:
        with torch.device("meta"):
            return NaviModel(NaviConfig(**entries))
    except (ConfigError, ValueError, TypeError) as error:
        raise ModelError(f"Cannot read {folder / 'config.json'}: {error} {COPY_AGAIN}") from error


def load_backbone(name: str | Path, **settings: Any) -> NaviModel:
    """Return a NAVI model with the weights of a backbone; `settings` go to its `NaviConfig`.

    The attribute encoder starts as a copy of two of the backbone's layers. A backbone without a head for masked tokens
    gets one tied to its word embeddings. A NAVI model gives all of its weights, and nothing starts cold. Nothing is
    unpickled and no code of the backbone is run.
    """
    folder = find_backbone(name)
    config = read_config(folder) | settings
    if config["model_type"] == NaviConfig.model_type:
        model = load_navi(folder, **settings)
        model.config.cold_head = model.config.cold_start = False
        return model
    empty = _make_empty(config, folder)
    weights = _rename(_read_weights(folder), empty.config)
    _check_weights(weights, empty, folder, optional=(*NEW_PARAMETERS, HEAD))
    model = NaviModel(empty.config)
    missing, _ = model.load_state_dict(weights, strict=False)
    model.config.cold_head = any(key.startswith(HEAD) and "decoder" not in key for key in missing)
    model.config.cold_start = True
    model.tie_weights()
    with torch.no_grad():
        length = model.embeddings.word_embeddings.weight.norm(dim=1).mean()
        model.attribute_scale.copy_(length)
    return model


def is_new(name: str, config: NaviConfig) -> bool:
    """Return whether a parameter starts cold: projection, unknown attribute, gate, a head that no backbone brought."""
    new = NEW_PARAMETERS if config.cold_start else ()
    return name.startswith((*new, HEAD) if config.cold_head else new)


def _read_weights(folder: Path) -> dict[str, Tensor]:
    if (folder / MANIFEST_FILE).is_file():
        return unpack_weights(folder)
    file = folder / WEIGHTS_FILE
    if not file.is_file():
        raise ModelError(f"No {WEIGHTS_FILE} in {folder}. Pickled weights are never loaded; convert them first.")
    try:
        weights = load_file(file)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"Cannot read {file}: {error}. {COPY_AGAIN}") from error
    if strange := [name for name, tensor in weights.items() if not tensor.is_floating_point() and "_ids" not in name]:
        raise ModelError(f"{file} holds {strange[0]} as whole numbers, which are no weights. {COPY_AGAIN}")
    return {name: tensor.float() for name, tensor in weights.items()}


def _check_weights(
    weights: dict[str, Tensor], model: NaviModel, folder: Path, *, optional: tuple[str, ...] = ()
) -> None:
    """Raise unless weights are those of a model: none missing, none left over, each of its shape and finite."""
    parameters, known = dict(model.named_parameters()), model.state_dict()
    missing = [name for name in parameters if name not in weights and not name.startswith(optional)]
    if missing:
        raise ModelError(
            f"The weights in {folder} are not whole: {len(missing)} tensors are missing, {missing[0]} among them. "
            "Expected those of its config.json, of a NAVI model or a BERT."
        )
    for name, tensor in weights.items():
        if name not in known:
            raise ModelError(f"{folder} has a tensor {name} that its config.json has no place for. {COPY_AGAIN}")
        if tensor.shape != known[name].shape:
            raise ModelError(
                f"The model in {folder} has {name} of shape {tuple(tensor.shape)}, but its config.json asks "
                f"for {tuple(known[name].shape)}. Take both from the same checkpoint."
            )
        if not tensor.sum().isfinite():
            raise ModelError(f"The tensor {name} in {folder} holds what is no number (NaN or infinite). {COPY_AGAIN}")


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


@cache
def list_files(folder: Path) -> tuple[str, ...]:
    """Return the files that a folder's manifest lists; raise if one is not as it was written."""
    digests = read_json(folder / MANIFEST_FILE, ModelError, REINSTALL).get("sha256")
    if not isinstance(digests, dict):
        raise ModelError(f"{folder / MANIFEST_FILE} lists no files. {REINSTALL}")
    for name, digest in digests.items():
        file = folder / name
        if not file.is_file():
            raise ModelError(f"The model in {folder} is damaged: it has no {name}. {REINSTALL}")
        if digest_file(file) != digest:
            raise ModelError(f"The model in {folder} is damaged: {name} is not as it was made. {REINSTALL}")
    return tuple(digests)


def unpack_weights(folder: Path) -> dict[str, Tensor]:
    """Return the weights that `scripts/pack_base.py` wrote, in float32; words are in int8 with a scale a row."""
    stored: dict[str, Tensor] = {}
    try:
        for name in list_files(folder):
            if name.endswith(".safetensors"):
                stored.update(load_file(folder / name))
    except SafetensorError as error:
        raise ModelError(f"Cannot read the weights in {folder}: {error}. {REINSTALL}") from error
    weights = {name: tensor.float() for name, tensor in stored.items() if not name.endswith(SCALE)}
    for name in weights:
        if name + SCALE in stored:
            weights[name].mul_(stored[name + SCALE].unsqueeze(1))
    return weights
