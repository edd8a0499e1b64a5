"""Write the model that comes with the package: `scripts/pack_base.py WEIGHTS.safetensors pretrain.json`.

The weights are a NAVI model's, under the names of its parameters, in any precision; `pretrain.json` is the record of
the run that made them. They go to `src/navi/base`, with configuration, tokenizer and card beside them; nothing of the
tables that the model learned from.
"""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from navi.backbones import BASE_FOLDER, BASE_MODEL, MANIFEST_FILE, MINILM, find_backbone
from navi.corpus import PrepareConfig
from navi.errors import ModelError
from navi.files import digest_file, read_json, write_folder, write_json
from navi.model import load_backbone
from navi.model.backbone import SCALE
from navi.training import TrainingResult

MAX_BYTES = 15_000_000
"""Size of a file of packed weights, about, from which the next one is begun."""
KEPT = ("config", "corpus", "num_steps", "skipped", "seconds", "device", "train", "validation", "notes")
"""What is taken over of a run's record."""


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=Path)
    parser.add_argument("record", type=Path, help="the run's pretrain.json")
    parser.add_argument("--out", type=Path, default=BASE_FOLDER)
    options = parser.parse_args()
    model = load_backbone(MINILM, shared_words=True)
    weights = load_file(options.weights)
    expected = {name: parameter.shape for name, parameter in model.named_parameters()}
    if {name: tensor.shape for name, tensor in weights.items()} != expected:
        raise SystemExit(f"{options.weights} does not hold the parameters of a NAVI model that starts from {MINILM}.")
    card = Path(__file__).with_name("base_card.md").read_text(encoding="utf-8")
    with write_folder(options.out) as folder:
        pack_weights(weights, folder)
        model.config.update({"architectures": [type(model).__name__], "cold_head": False, "cold_start": False})
        (folder / "config.json").write_text(json.dumps(model.config.to_diff_dict(), indent=1) + "\n")
        shutil.copyfile(find_backbone(MINILM) / "tokenizer.json", folder / "tokenizer.json")
        make_record(options.record, folder).save()
        (folder / "README.md").write_text(card, encoding="utf-8")
        for file in folder.iterdir():
            file.chmod(0o644)
        write_manifest(folder)
    sizes = {file.name: file.stat().st_size for file in sorted(options.out.iterdir())}
    print(f"{BASE_MODEL} in {options.out}: {sum(sizes.values()):,} bytes")
    for name, size in sizes.items():
        print(f"  {name}: {size:,}")


def quantize_rows(matrix_ND: Tensor) -> tuple[Tensor, Tensor]:
    """Return a matrix in int8, and the scale of each row that the largest of its numbers asks for."""
    scale_N = matrix_ND.float().abs().amax(dim=1).clamp(min=1e-12) / 127
    return (matrix_ND.float() / scale_N.unsqueeze(1)).round().to(torch.int8), scale_N


def pack_weights(weights: dict[str, Tensor], folder: Path) -> None:
    """Write weights into files of a folder: words in int8 with a scale a row, all else in float16.

    With the layers in int8 too the files are 28 MB instead of 44, but a row's vector has a cosine of 0.9989 to what it
    was, on average, and 0.994 at worst.
    """
    parts: list[dict[str, Tensor]] = [{}]
    num_bytes = 0
    for name, tensor in weights.items():
        stored = {name: tensor.half().clone()}
        if name.endswith("word_embeddings.weight"):
            stored = dict(zip((name, name + SCALE), quantize_rows(tensor), strict=True))
        size = sum(each.nbytes for each in stored.values())
        if parts[-1] and num_bytes + size > MAX_BYTES:
            parts.append({})
            num_bytes = 0
        parts[-1].update(stored)
        num_bytes += size
    for number, part in enumerate(parts, start=1):
        save_file(part, folder / f"weights-{number}.safetensors", metadata={"format": "pt"})


def write_manifest(folder: Path) -> None:
    """List the digests of all files of a folder in it."""
    files = sorted(file for file in folder.iterdir() if file.name != MANIFEST_FILE)
    write_json(folder / MANIFEST_FILE, {"sha256": {file.name: digest_file(file) for file in files}})


def make_record(file: Path, folder: Path) -> TrainingResult:
    """Return the record of the run, less what it says of single tables."""
    record = TrainingResult(path=folder, **{name: read_json(file, ModelError, "")[name] for name in KEPT})
    first, last = record.validation[0], record.validation[-1]
    corpus = {
        "fingerprint": "",
        "tables": record.corpus["tables"],
        "rows": record.corpus["rows"],
        "train_rows": record.corpus["train_rows"],
        "settings": PrepareConfig(backbone=MINILM).as_settings(),
    }
    return replace(record, corpus=corpus, validation=[first, last])


if __name__ == "__main__":
    main()
