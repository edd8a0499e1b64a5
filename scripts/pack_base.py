"""Write the model that comes with the package: `scripts/pack_base.py WEIGHTS.safetensors` fills `src/navi/base`.

The weights are a NAVI model's, under the names of its parameters, in any precision. Beside them come configuration,
tokenizer, record and card; nothing of the tables that the model learned from.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from safetensors.torch import load_file

from navi.backbones import BASE_FOLDER, BASE_MODEL, MINILM, find_backbone
from navi.corpus import PrepareConfig
from navi.files import write_folder
from navi.model import load_backbone
from navi.model.backbone import pack_weights, write_manifest
from navi.training import PretrainConfig, TrainingResult

FACTS = {
    "tables": 10_825,
    "steps": 11_571,
    "rows_seen": 5_924_352,
    "seconds": 504.0,
    "masked_loss": 3.07,
    "header_accuracy_informed": 0.852,
    "header_accuracy_blind": 0.421,
    "value_accuracy": 0.302,
}
"""What the run recorded; the accuracies are those on open tables that were held out."""
TRAINING = {
    "backbone": MINILM,
    "sampler": {"rows_per_batch": 512, "tables_per_batch": 16},
    "views": {"weight": 1.0, "keep_weight": 1.0, "columns_per_step": 320, "num_views": 8},
    "training": {"max_steps": FACTS["steps"]},
}


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=Path)
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
        make_record(folder).save()
        (folder / "README.md").write_text(card, encoding="utf-8")
        for file in folder.iterdir():
            file.chmod(0o644)
        write_manifest(folder)
    sizes = {file.name: file.stat().st_size for file in sorted(options.out.iterdir())}
    print(f"{BASE_MODEL} in {options.out}: {sum(sizes.values()):,} bytes")
    for name, size in sizes.items():
        print(f"  {name}: {size:,}")


def make_record(folder: Path) -> TrainingResult:
    """Return the record of the run, as `navi pretrain` would have written it."""
    measures = {name: FACTS[name] for name in ("masked_loss", "value_accuracy")}
    measures |= {name: figure for name, figure in FACTS.items() if name.startswith("header_accuracy")}
    return TrainingResult(
        path=folder,
        config=PretrainConfig.from_dict(TRAINING).to_dict(),
        corpus={
            "fingerprint": "",
            "tables": FACTS["tables"],
            "rows": None,
            "train_rows": None,
            "settings": PrepareConfig(backbone=MINILM).as_settings(),
        },
        num_steps=FACTS["steps"],
        skipped=0,
        seconds=FACTS["seconds"],
        device="cuda, bfloat16",
        train={"rows": FACTS["rows_seen"]},
        validation=[{"split": "held-out tables", **measures}],
        notes=["Figures are of open tables that were held out, one in twenty."],
    )


if __name__ == "__main__":
    main()
