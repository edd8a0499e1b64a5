"""A model directory opened: checked, and said in one line what is wrong with it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError

from navi.backbones import MANIFEST_FILE, WEIGHTS_FILE
from navi.corpus import PrepareConfig
from navi.errors import ConfigError, ModelError
from navi.files import digest_file, read_json
from navi.model import NaviConfig, NaviModel
from navi.model.base import list_files, unpack_weights
from navi.model.encoder import FORMAT_VERSION
from navi.version import VERSION

CONFIG_FILE, TOKENIZER_FILE, RECORD_FILE, CORPUS_FILE = "config.json", "tokenizer.json", "pretrain.json", "corpus.json"
COPY_AGAIN = "Copy the model again."
Devices = str | torch.device | Sequence[str | torch.device] | None
"""One device, several (`cuda:0,cuda:1` or a list), or None for the best there is."""
EXPECTED_DEVICES = "Expected cpu, cuda, cuda:0 or several, such as cuda:0,cuda:1."


def open_model(folder: Path) -> NaviModel:
    """Return the model of a model directory, on the CPU, ready for inference."""
    check_folder(folder)
    try:
        with without_bars():
            if (folder / MANIFEST_FILE).is_file():
                config = NaviConfig.from_pretrained(folder)
                model = NaviModel.from_pretrained(None, config=config, state_dict=unpack_weights(folder))
            else:
                model = NaviModel.from_pretrained(folder)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ModelError(f"Cannot load the model in {folder}: {error}. Pretrain it again, or copy it whole.") from error
    return cast("NaviModel", model.eval())


@contextmanager
def without_bars() -> Iterator[None]:
    """Keep transformers from drawing progress bars of its own."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def check_folder(folder: Path) -> None:
    """Raise unless a folder holds a NAVI model that this version reads."""
    if not folder.exists():
        raise ModelError(f"No model at {folder}: no such directory. `navi pretrain CORPUS -o {folder}` makes one.")
    if not folder.is_dir():
        raise ModelError(f"{folder} is a file, not a model. Give the directory that `navi pretrain` wrote.")
    if (folder / CORPUS_FILE).is_file():
        raise ModelError(
            f"{folder} is a corpus, not a model. Learn one from it first: navi pretrain {folder} -o MODEL."
        )
    if (folder / "checkpoints").is_dir() and not (folder / RECORD_FILE).is_file():
        raise ModelError(
            f"{folder} holds a run that is not finished. Finish it first: navi pretrain CORPUS -o {folder} --resume."
        )
    for name in list_model_files(folder):
        if not (folder / name).is_file():
            raise ModelError(f"{folder} is not a model: it has no {name}. Give a directory that `navi pretrain` wrote.")
    _check_config(folder, read_json(folder / CONFIG_FILE, ModelError, COPY_AGAIN))


def list_model_files(folder: Path) -> tuple[str, ...]:
    """Return the files that decide what a model answers."""
    if (folder / MANIFEST_FILE).is_file():
        return (MANIFEST_FILE, *list_files(folder))
    return (CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE)


def _check_config(folder: Path, config: dict[str, Any]) -> None:
    if config.get("model_type") != "navi":
        raise ModelError(
            f"{folder} holds a '{config.get('model_type')}' model, not a NAVI model. It may serve as a backbone: "
            f"navi pretrain CORPUS -o MODEL --from {folder}."
        )
    version = config.get("format_version", 1)
    if version != FORMAT_VERSION:
        remedy = "Pretrain it again: navi pretrain CORPUS -o MODEL."
        if version > FORMAT_VERSION:
            remedy = "Update navi-tables: pip install -U navi-tables."
        raise ModelError(
            f"The model in {folder} has format version {version}, this is NAVI {VERSION} and reads {FORMAT_VERSION}. "
            f"{remedy}"
        )


def fingerprint_model(folder: Path) -> str:
    """Return a digest of everything that decides what a model answers."""
    digest = hashlib.sha256()
    for name in list_model_files(folder):
        digest.update(bytes.fromhex(digest_file(folder / name)))
    return digest.hexdigest()


def find_prepare_config(folder: Path) -> PrepareConfig:
    """Return the settings that the model's own corpus was prepared with, where the record says, else the defaults."""
    file = folder / RECORD_FILE
    settings = read_json(file, ModelError, COPY_AGAIN).get("corpus", {}).get("settings") if file.is_file() else None
    if settings is None:
        return PrepareConfig(backbone=str(folder))
    try:
        return PrepareConfig.from_settings({**settings, "backbone": str(folder)})
    except (KeyError, TypeError, ConfigError) as error:
        raise ModelError(f"Cannot read the corpus's settings in {file}: {error}.") from error


def parse_devices(device: Devices) -> list[torch.device]:
    """Return the devices that a user named, if they are there; the best there is for None.

    >>> parse_devices("cpu, cpu")
    [device(type='cpu'), device(type='cpu')]
    """
    if device is None:
        return [torch.device("cuda" if torch.cuda.is_available() else "cpu")]
    if isinstance(device, torch.device):
        device = [device]
    names = device.split(",") if isinstance(device, str) else list(device)
    if not names:
        raise ConfigError(f"No device named. {EXPECTED_DEVICES}")
    return [_parse_device(name if isinstance(name, torch.device) else name.strip()) for name in names]


def _parse_device(name: str | torch.device) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"Unknown device '{name}'. {EXPECTED_DEVICES}") from error
    if device.type not in ("cpu", "cuda", "mps"):
        raise ConfigError(f"The device '{device}' is not supported. Expected cpu, cuda or mps.")
    num_there = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if device.type != "cpu" and (device.index or 0) >= num_there[device.type]:
        raise ConfigError(f"The device '{device}' is not there: {num_there[device.type]} were found. Use cpu.")
    return device
