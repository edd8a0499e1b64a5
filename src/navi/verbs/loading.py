"""A model directory opened: checked, and said in one line what is wrong with it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch

from navi.backbones import MANIFEST_FILE, WEIGHTS_FILE, load_tokenizer
from navi.corpus import PrepareConfig
from navi.errors import ConfigError, ModelError
from navi.files import digest_file, read_json, was_locked
from navi.model import NaviModel
from navi.model.backbone import COPY_AGAIN, list_files, load_navi, read_config

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CONFIG_FILE, TOKENIZER_FILE, RECORD_FILE, CORPUS_FILE = "config.json", "tokenizer.json", "pretrain.json", "corpus.json"
Devices = str | torch.device | Sequence[str | torch.device] | None
"""One device, several (`cuda:0,cuda:1` or a list), or None for the best there is."""
INT8_ROWS = 200
"""Rows from which opening a model in int8, some three seconds, pays."""
EXPECTED_DEVICES = "Expected cpu, cuda, cuda:0 or several, such as cuda:0,cuda:1."


def open_model(folder: Path) -> tuple[NaviModel, Tokenizer]:
    """Return the model of a model directory, on the CPU, ready for inference, and its tokenizer."""
    check_folder(folder)
    for name, digest in _read_record(folder).get("sha256", {}).items():
        if (folder / name).is_file() and digest_file(folder / name) != digest:
            raise ModelError(f"{folder / name} is not as it was written: its checksum does not fit. {COPY_AGAIN}")
    model, tokenizer = load_navi(folder).eval(), load_tokenizer(folder)
    if (last := max(tokenizer.get_vocab().values(), default=0)) >= model.config.vocab_size:
        raise ModelError(
            f"The tokenizer in {folder} has a token {last}, but its config.json and weights know "
            f"{model.config.vocab_size}. {COPY_AGAIN}"
        )
    return model, tokenizer


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
    is_begun = (folder / "checkpoints").is_dir() or was_locked(folder)
    if is_begun and not (folder / RECORD_FILE).is_file():
        raise ModelError(
            f"{folder} holds a run that is not finished. Finish it first: navi pretrain CORPUS -o {folder} --resume "
            "(or --finish, to take it as it is)."
        )
    for name in list_model_files(folder):
        if not (folder / name).is_file():
            raise ModelError(f"{folder} is not a model: it has no {name}. Give a directory that `navi pretrain` wrote.")
    read_config(folder)


def list_model_files(folder: Path) -> tuple[str, ...]:
    """Return the files that a model is opened from."""
    if (folder / MANIFEST_FILE).is_file():
        return (MANIFEST_FILE, *list_files(folder))
    return (CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE)


def fingerprint_model(folder: Path) -> str:
    """Return a digest of everything that decides what a model answers; its card and its record do not."""
    digest = hashlib.sha256()
    for name in list_model_files(folder):
        if name in (CONFIG_FILE, TOKENIZER_FILE) or name.endswith(".safetensors"):
            digest.update(bytes.fromhex(digest_file(folder / name)))
    return digest.hexdigest()


@dataclass(frozen=True)
class PackedModel:
    """The files of a model directory in memory, to be sent elsewhere; two are equal if their digests are."""

    digest: str
    files: dict[str, bytes] = field(compare=False, repr=False)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return the files that embedding needs."""
        names = dict.fromkeys((*list_model_files(folder), RECORD_FILE))
        files = {name: (folder / name).read_bytes() for name in names if (folder / name).is_file()}
        return cls(hashlib.sha256(b"".join(files.values())).hexdigest(), files)

    def unpack(self, folder: Path) -> Path:
        """Write the files to a folder, and return it."""
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        return folder


def find_prepare_config(folder: Path) -> PrepareConfig:
    """Return the settings that the model's own corpus was prepared with, where the record says, else the defaults."""
    settings = _read_record(folder).get("corpus", {}).get("settings")
    if settings is None:
        return PrepareConfig(backbone=str(folder))
    try:
        return PrepareConfig.from_settings({**settings, "backbone": str(folder)})
    except (KeyError, TypeError, ConfigError) as error:
        raise ModelError(f"Cannot read the corpus's settings in {folder / RECORD_FILE}: {error}.") from error


def _read_record(folder: Path) -> dict[str, Any]:
    """Return the record of a model's training, where it has one; what is read of it is of the right type."""
    file = folder / RECORD_FILE
    record = read_json(file, ModelError, COPY_AGAIN) if file.is_file() else {}
    for name in ("corpus", "sha256"):
        if not isinstance(record.get(name, {}), dict):
            raise ModelError(f"Cannot read {file}: {name} must be an object, found {str(record[name])[:60]!r}.")
    return record


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


def choose_precision(device: Devices, num_rows: int) -> str | None:
    """Return int8 for many rows on a CPU, where the extra for it is installed; None for the usual arithmetic."""
    on_cpu = all(each.type == "cpu" for each in parse_devices(device))
    return "int8" if on_cpu and num_rows >= INT8_ROWS and find_spec("openvino") else None
