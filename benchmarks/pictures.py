"""Draw the figures of an evaluation as pictures: Figures 3, 4 and 5 of the paper, and its appendix's segments by role.

    python benchmarks/pictures.py RESULTS paper/figures

Each figure is one PNG, called after what it shows; the page of `navi report` has the same figures to point at.
`records.jsonl` beside them has a line for each: its digest, and which models of which results it was drawn from.
"""

# needs: a folder of results with its arrays, and the extra report
from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import vl_convert
from records import write_command

from navi.files import digest_file
from navi.report import Chart
from navi_paper import Results, make_page
from navi_paper.grid import find_commit
from navi_paper.page.figures import find_drawn
from navi_paper.page.tables import BERT, NAVI, PAPER, Averages, name_model

NAMES = {
    "hidden with the whole fields.": ("figure-3", "reconstruction"),
    "less those with other fields": ("figure-3-less-random-pairs", "reconstruction"),
    "among all columns": ("figure-4", "clustering"),
    "tables by role": ("figure-5", "geometry"),
    "low-entropy segments": ("figure-5-low", "geometry"),
    "high-entropy segments": ("figure-5-high", "geometry"),
}
"""What a caption has, what its figure is called, and the task whose arrays it shows."""
COLOURS = ("#c3c7cc", "#2f6fb7", "#d9772b", "#3c9a5f", "#b5445b", "#7a5aa8", "#8c6d46", "#c46fa8", "#1f9aa8")
COLOURS += ("#a8a11c", "#4a5058")
WIDTH = 620


def draw(chart: Chart) -> bytes:
    """Return a chart as PNG, its colours those of a light page."""
    spec = json.dumps({**chart.spec, "width": WIDTH, "title": {"text": chart.caption, "fontSize": 11}})
    spec = re.sub(r"var\(--c(\d+)\)", lambda found: COLOURS[int(found[1])], spec)
    spec = re.sub(r"var\(--\w+\)", "#444444", spec)
    picture: bytes = vl_convert.vegalite_to_png(spec, scale=1.3)
    return picture


def list_origins(averages: Averages, shown: str, task: str) -> Iterator[dict[str, Any]]:
    """Yield the cells that a figure shows: those of the model that its caption begins with, or of all in it."""
    corpus, _, name = shown.partition(", ")
    for model, record in find_drawn(averages, corpus, task, (BERT, NAVI, PAPER, "cm2")).items():
        if name == name_model(model) or (not name and model != BERT):
            about = {key: record.about[key] for key in ("commit", "command", "fingerprint", "weights")}
            yield {"corpus": corpus, "task": task, "model": model, "seed": record.seed, **about}


def main(results: Path, out: Path) -> None:
    """Draw every figure, and write where each comes from."""
    out.mkdir(parents=True, exist_ok=True)
    opened = Results.open(results)
    averages, lines = Averages(opened), []
    for section in make_page(opened).sections:
        for chart in (item for item in section.items if isinstance(item, Chart)):
            kind, task = next((names for text, names in NAMES.items() if text in chart.caption), (None, ""))
            if kind is not None:
                shown = chart.caption.split(":")[0]
                who = re.sub(r"[^a-z]+", "-", shown.lower()).strip("-")
                file = out / f"{kind}-{who}.png"
                file.write_bytes(draw(chart))
                line = {"figure": file.name, "sha256": digest_file(file), "command": write_command()}
                drawn = list(list_origins(averages, shown, task))
                lines.append(json.dumps(line | {"commit": find_commit(), "drawn_from": drawn}))
    (out / "records.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
