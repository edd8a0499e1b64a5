"""The first tables of `paper/README.md`: what holds of the paper's claims in ten lines, then what else was asked.

    python benchmarks/first_page.py paper [--write]

Prints the tables that the results in a folder make; with `--write`, puts them between the marks in its README.md.
A test compares the two.
"""

# needs: nothing but paper/results.jsonl
from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from navi_paper import Results
from navi_paper.page.evaluation_page import LEVEL, Comparison, average_runs, compare, list_claims
from navi_paper.page.tables import ANY, Averages

BEGIN, END = "<!-- what benchmarks/first_page.py prints -->", "<!-- until here -->"
CORPORA = {"movie": "films", "product": "products"}
MODELS = {"navi-paper": "paper's encoder", "navi": "ours"}


@dataclass(frozen=True, kw_only=True)
class Line:
    """A claim: a measure in which NAVI is ahead of another model, or of what else was measured of it."""

    claim: str
    task: str
    measure: str
    other: str
    """The model that it is compared with; `{own}` is NAVI itself, `any` whichever was measured."""
    other_task: str | None = None
    other_measure: str | None = None


_VALUES = {"task": "generative", "measure": "test_value_token"}
_TOLD = {"task": "generative", "measure": "test_header_informed_token"}
_HIDDEN = {"task": "generative", "measure": "test_header_blind_token"}
_B3 = {"task": "clustering", "measure": "test_headers_b3_f1"}
_UNSEEN = {"task": "clustering", "measure": "unseen_headers_b3_f1"}
_ROWS = {"task": "classification_lr", "measure": "rows_f1"}
_TREES = {"task": "classification_xgboost", "measure": "rows_f1"}
_TABLES = {"task": "classification_lr", "measure": "tables_f1"}
_QUARTILES = {"task": "reconstruction", "measure": "test_value_q1", "other_measure": "test_value_q3"}
_PIPELINES = {"task": "features_lr", "measure": "navi_fe_f1", "other_measure": "table_vectorizer_f1"}
_VECTORIZER = {"other_task": "features_lr", "other_measure": "table_vectorizer_tables_f1"}
CLAIMS = (
    Line(claim="values, ahead of BERT", other="bert", **_VALUES),
    Line(claim="headers, attribute told, ahead of BERT", other="bert", **_TOLD),
    Line(claim="headers, attribute hidden too, ahead of BERT", other="bert", **_HIDDEN),
    Line(claim="B³ of headers, ahead of BERT", other="bert", **_B3),
    Line(claim="B³ of headers of unseen tables, ahead of BERT", other="bert", **_UNSEEN),
    Line(claim="rows, LR, ahead of BERT", other="bert", **_ROWS),
    Line(claim="NAVI_FE, LR, ahead of TableVectorizer", other="{own}", **_PIPELINES),
    Line(claim="Figure 3: lower quartile above CM2's upper one", other="cm2", **_QUARTILES),
)
"""What the paper says of its model; with changed schemas and its parts, ten lines."""
ASKED = (
    Line(claim="B³ of headers, ahead of the frozen backbone", other="frozen", **_B3),
    Line(claim="rows of tables held out, LR, ahead of the frozen backbone", other="frozen", **_TABLES),
    Line(claim="rows of tables held out, LR, ahead of TableVectorizer", other=ANY, **_TABLES, **_VECTORIZER),
)
"""What this project asks of a model beside."""
PARTS = (
    Line(claim="attributes: values", other="{own}-without_attributes", **_VALUES),
    Line(claim="attributes: headers, attribute hidden too", other="{own}-without_attributes", **_HIDDEN),
    Line(claim="segments masked whole: values", other="{own}-without_segment_masking", **_VALUES),
    Line(claim="segments masked whole: rows, LR", other="{own}-without_segment_masking", **_ROWS),
    Line(claim="alignment: values", other="{own}-without_alignment", **_VALUES),
    Line(claim="alignment: B³ of headers", other="{own}-without_alignment", **_B3),
    Line(claim="alignment: rows, LR", other="{own}-without_alignment", **_ROWS),
    Line(claim="routing by entropy, not at random: values", other="{own}-random_routing", **_VALUES),
    Line(claim="routing by entropy, not at random: rows, XGBoost", other="{own}-random_routing", **_TREES),
    Line(claim="views of columns (ours): values", other="{own}-without_views", **_VALUES),
    Line(claim="views of columns (ours): B³ of headers", other="{own}-without_views", **_B3),
    Line(claim="views of columns (ours): rows of tables held out, LR", other="{own}-without_views", **_TABLES),
)
"""What each part adds: with it, and without."""
FIXED = ("frozen", "{own}", ANY)
"""What nothing random decides but what ours has too: one seed of these is all there is."""
ROBUSTNESS = "Robustness to changed schemas: ahead of "
CHANGED, NEEDED = (
    "headers with columns permuted, renamed, misspelled, ahead of all",
    "values are worse without each part",
)


def write_table(averages: Averages) -> str:
    """Return three tables as Markdown: a claim a line, a column for each corpus and encoder."""
    heads = [f"{corpus}: {model}" for corpus in CORPORA.values() for model in MODELS.values()]
    judged = [(corpus, model) for corpus in CORPORA for model in MODELS]
    robust = _join([CHANGED, *(_count(list_claims(averages, *each)) for each in judged)])
    needed = _join([NEEDED, *(_count_parts(averages, *each) for each in judged)])
    claims, asked, parts = ([_write_line(averages, line) for line in lines] for lines in (CLAIMS, ASKED, PARTS))
    tables = [("the paper's claims", [*claims, robust, needed]), ("asked beside", asked), ("with and without", parts)]
    return "\n\n".join(
        "\n".join([_join([first, *heads]), _join(["---"] * (len(heads) + 1)), *(line for line in lines if line)])
        for first, lines in tables
    )


def _write_line(averages: Averages, line: Line) -> str | None:
    cells = [_compare(averages, line, corpus, model) for corpus in CORPORA for model in MODELS]
    return _join([line.claim, *(cell or "–" for cell in cells)]) if any(cells) else None


def _join(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def _compare(averages: Averages, line: Line, corpus: str, model: str) -> str | None:
    """Return whether a claim holds, and the two figures; None where one of them was not measured."""
    theirs_task, theirs_measure = line.other_task or line.task, line.other_measure or line.measure
    ours = _read(averages, corpus, line.task, model, line.measure)
    theirs = _read(averages, corpus, theirs_task, line.other.format(own=model), theirs_measure)
    found = compare(ours, theirs, line.measure, theirs_measure)
    if found is None:
        return None
    runs = len(average_runs(ours, line.measure)) > 1
    chance = f", p {found.noise:.2f}" if runs and found.noise is not None else ""
    once = ", one seed" if len(theirs) == 1 and line.other not in FIXED else ""
    shown = _show(ours, line.measure), _show(theirs, theirs_measure)
    return f"{_judge(found, runs)}: {', '.join(shown)}{chance}{once}"


def _judge(found: Comparison, runs: bool) -> str:
    if found.holds:
        return "yes"
    if found.noise is None:
        return "?"
    is_apart = found.noise < LEVEL if runs else abs(found.margin) > found.noise
    return "**no**" if is_apart else "**no**, within chance"


def _read(averages: Averages, corpus: str, task: str, model: str, name: str) -> list[dict[str, float]]:
    """Return the measures of each seed that has the one of this name."""
    models = averages.list_models(corpus, task)[:1] if model == ANY else (model,)
    records = [record for each in models for record in averages.list_records(corpus, task, each)]
    return [record.measures for record in records if name in record.measures]


def _show(measures: Sequence[dict[str, float]], name: str) -> str:
    """Return the mean over seeds, with their deviation if there are several."""
    values = [each[name] for each in measures]
    return f"{fmean(values):.3f} ± {stdev(values):.3f}" if len(values) > 1 else f"{fmean(values):.3f}"


def _count(claims: Sequence[Comparison]) -> str:
    """Return in how many changes of a schema NAVI is ahead of every baseline beyond chance."""
    own = [each for each in claims if each.claim.startswith(ROBUSTNESS) and not each.measure.endswith("Default")]
    changes = dict.fromkeys(each.measure for each in own)
    held = sum(all(each.holds for each in own if each.measure == change) for change in changes)
    return f"{'yes' if held == len(changes) else '**no**'}: {held} of {len(changes)}"


def _count_parts(averages: Averages, corpus: str, model: str) -> str:
    """Return which of the parts that were left out make values better beyond chance."""
    parts = {line.claim.split(":")[0]: line for line in PARTS if line.measure == _VALUES["measure"]}
    found = {name: _compare(averages, line, corpus, model) for name, line in parts.items()}
    measured = {name: cell for name, cell in found.items() if cell is not None}
    held = [name for name, cell in measured.items() if cell.startswith("yes")]
    if not measured:
        return "–"
    return f"{'yes' if len(held) == len(measured) else '**no**'}: {len(held)} of {len(measured)}" + (
        f" ({', '.join(held)})" if 0 < len(held) < len(measured) else ""
    )


def split_page(page: str) -> tuple[str, str, str]:
    """Return what stands before the tables in a page, the tables, and what stands behind them."""
    before, rest = page.split(f"{BEGIN}\n")
    table, behind = rest.split(f"\n{END}")
    return before, table, behind


def main(folder: Path, *, write: bool) -> None:
    """Print the tables, or write them."""
    table = write_table(Averages(Results.open(folder)))
    print(table)
    if write:
        before, _, behind = split_page((folder / "README.md").read_text("utf-8"))
        (folder / "README.md").write_text(f"{before}{BEGIN}\n{table}\n{END}{behind}", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), write="--write" in sys.argv)
