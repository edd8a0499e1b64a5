"""The model card: what a model is, what it learned from, and how to load it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from navi.backbones import DEFAULT_BACKBONE, find_backbone
from navi.training.result import TrainingResult
from navi.version import VERSION

CARD_FILE = "README.md"
KNOWN_LICENCES = {DEFAULT_BACKBONE: "apache-2.0"}


def write_card(result: TrainingResult) -> None:
    """Write the card beside the weights."""
    (result.path / CARD_FILE).write_text(make_card(result), encoding="utf-8")


def make_card(result: TrainingResult) -> str:
    """Return the card's text, in Markdown with the front matter that model hubs read."""
    backbone = result.config["backbone"]
    licence = find_licence(backbone)
    name = Path(backbone).name
    front = ["---", "library_name: navi-tables", "tags: [tables, tabular, encoder]"]
    front += [f"license: {licence}"] if licence else []
    corpus = result.corpus
    return "\n".join(
        [
            *front,
            "---",
            f"# A NAVI encoder of {corpus['tables']} tables",
            "",
            f"A NAVI encoder of rows, columns and cells, pretrained from the backbone `{name}` "
            f"(licence: {licence or 'not known; see the backbone'}) by navi-tables {VERSION}.",
            "",
            "```python",
            "import navi",
            "",
            'model = navi.Navi.from_pretrained("path/of/this/folder")',
            "model.embed_rows(frame)",
            "```",
            "",
            "## Data",
            f"{corpus['train_rows']:,} training rows of {corpus['rows']:,} in {corpus['tables']} tables; "
            f"corpus fingerprint `{corpus['fingerprint']}`.",
            "",
            "## Training",
            f"{result.num_steps:,} steps, {result.seconds:,.0f} s on {result.device}; "
            f"{result.skipped} steps skipped because the loss was not finite.",
            "",
            *_tabulate(result),
            "",
            "Header accuracy is `informed` where the model was told the column's attribute, `blind` where it was not.",
            "",
            "## Settings",
            *_list_settings(result.config),
            "",
        ]
    )


def find_licence(backbone: str) -> str | None:
    """Return the licence of a backbone, if it is known or the backbone's own card names it."""
    if backbone in KNOWN_LICENCES:
        return KNOWN_LICENCES[backbone]
    card = find_backbone(backbone) / CARD_FILE
    if not card.is_file():
        return None
    for line in card.read_text(encoding="utf-8", errors="replace").splitlines()[:50]:
        if line.startswith("license:"):
            return line.removeprefix("license:").strip() or None
    return None


def _tabulate(result: TrainingResult) -> list[str]:
    """Return a table of the first and the last validation, and of the guesses to beat."""
    if not result.validation:
        return [f"Last training loss: {_show(result.train.get('loss'))}. There were no validation rows."]
    first, last = result.validation[0], result.validation[-1]
    guesses = {
        "header_accuracy_informed": first.get("most_frequent_header"),
        "header_accuracy_blind": first.get("most_frequent_header"),
        "value_accuracy": first.get("most_frequent_value"),
    }
    lines = ["| on validation rows | before | after | most frequent guess |", "|---|---|---|---|"]
    for name in ("masked_loss", *guesses):
        cells = (name.replace("_", " "), _show(first[name]), _show(last[name]), _show(guesses.get(name)))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _list_settings(config: dict[str, Any]) -> list[str]:
    sections = {name: section for name, section in config.items() if isinstance(section, dict)}
    return [f"- {name}: " + ", ".join(f"{key} {value}" for key, value in sections[name].items()) for name in sections]


def _show(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
