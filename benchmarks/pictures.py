"""Draw the figures of an evaluation as pictures: Figures 3, 4 and 5 of the paper, and segments by role.

    python benchmarks/pictures.py RESULTS paper/figures

Each figure is one PNG, called after what it shows; the page of `navi report` has the same figures to point at.
"""

# needs: a folder of results with its arrays, and the extra report
from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import vl_convert

from navi.report import Chart
from navi.report.charts import draw_chart
from navi_paper import Results, make_page

NAMES = {
    "hidden with the whole fields.": "figure-3",
    "less those with other fields": "figure-3-less-random-pairs",
    "among all columns": "figure-4",
    "tables by role": "figure-5",
    "low-entropy segments": "figure-5-low",
    "high-entropy segments": "figure-5-high",
}
COLOURS = ("#c3c7cc", "#2f6fb7", "#d9772b", "#3c9a5f", "#b5445b", "#7a5aa8", "#8c6d46", "#c46fa8", "#1f9aa8")
COLOURS += ("#a8a11c", "#4a5058")
WIDTH = 620


def draw(chart: Chart) -> bytes:
    """Return a chart as PNG, its colours those of a light page."""
    spec = json.dumps(draw_chart(chart) | {"width": WIDTH, "title": {"text": chart.caption, "fontSize": 11}})
    spec = re.sub(r"var\(--c(\d+)\)", lambda found: COLOURS[int(found[1])], spec)
    spec = re.sub(r"var\(--\w+\)", "#444444", spec)
    picture: bytes = vl_convert.vegalite_to_png(spec, scale=1.3)
    return picture


def main(results: Path, out: Path) -> None:
    """Draw every figure."""
    out.mkdir(parents=True, exist_ok=True)
    for section in make_page(Results.open(results)).sections:
        for chart in (item for item in section.items if isinstance(item, Chart)):
            kind = next((name for text, name in NAMES.items() if text in chart.caption), None)
            if kind is not None:
                who = re.sub(r"[^a-z]+", "-", chart.caption.split(":")[0].lower()).strip("-")
                (out / f"{kind}-{who}.png").write_bytes(draw(chart))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
