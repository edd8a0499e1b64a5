"""The page of an evaluation: every table and figure of the paper for each corpus, the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from navi.report import Cell, Code, Item, Page, ReportColumn, ReportTable, Section
from navi_paper.page.claims import show_claims
from navi_paper.page.figures import FIGURES, Setting, TrainedModel, draw_curves, list_runs
from navi_paper.page.tables import (
    KNOWN,
    LONGEST_ERROR,
    MODELS,
    PAPER,
    SECTIONS,
    SETTINGS,
    Averages,
    SectionLayout,
    find_corpus,
    make_table,
    name_model,
)
from navi_paper.results import Record, Results

TITLE = "NAVI, evaluated"


def make_page(results: Results, left_out: Mapping[str, str] | None = None) -> Page:
    """Return the page of some results; `left_out` has the tasks that were not done, and what would make them possible.

    A section that nothing fills is not on the page: what was not asked for would only be in the way of the rest. It is
    named at the end, with the tasks that would fill it. One whose task was left out stays, and says why.
    """
    averages, reasons = Averages(results), dict(left_out or {})
    filled = [_show(averages, layout, reasons) for layout in SECTIONS.values()]
    sections = [
        show_claims(averages),
        *filled,
        _show_training(averages),
        _show_left_out(averages, reasons),
        _show_failed(averages.failed),
        _show_origin(averages),
    ]
    return Page(TITLE, _write_lead(averages), tuple(section for section in sections if section is not None))


def _write_lead(averages: Averages) -> str:
    if not averages.records:
        return "There are no results yet. `navi evaluate CORPUS -o RESULTS` makes some."
    quoted = [corpus for corpus in averages.corpora if find_corpus(corpus)]
    whole = [name_model(model) for model in averages.models if model in MODELS["whole"] or model not in KNOWN]
    ablated = len(averages.models) - len(whole)
    compared = [*whole, *([f"{ablated} ablation{'s' if ablated > 1 else ''}"] if ablated else [])]
    lead = (
        f"{_join(compared)}, measured on {_join(averages.corpora)}. All were trained from the same backbone on the "
        "same rows for the same number of steps, except those that were taken as they are."
    )
    if PAPER in averages.models:
        lead += " NAVI (paper) does as the paper says (`--preset paper`), NAVI is the default."
    if len(averages.seeds) > 1:
        lead += f" Figures are means over {len(averages.seeds)} seeds, with their deviation behind ±."
    if quoted:
        lead += (
            "\n\nColumns called “paper” quote the paper. It has larger corpora of the same names and a larger "
            "backbone: what is to be compared is the distance between models, not the figures themselves."
        )
    return lead


def _show(averages: Averages, layout: SectionLayout, left_out: Mapping[str, str]) -> Section | None:
    """Return a section; None if there is nothing to say."""
    items: list[Item] = []
    for table in layout.tables:
        made = (make_table(averages, table, corpus, left_out) for corpus in averages.corpora)
        items += [each for each in made if each is not None]
    for name in layout.figures:
        items += [figure for corpus in averages.corpora for figure in FIGURES[name](averages, corpus)]
    lacking = [f"`{task}` was left out: {left_out[task]}." for task in layout.tasks if task in left_out]
    if not items and not lacking:
        return None
    return Section(layout.title, layout.text if items else " ".join([layout.text, *lacking]), tuple(items))


def _show_training(averages: Averages) -> Section | None:
    """Return settings as run and learning curves, for the models that were trained in these results."""
    items: list[Item] = []
    for corpus in averages.corpora:
        table = tabulate_settings(list_runs(averages, corpus), corpus)
        items += [table] if table is not None else []
        items += draw_curves(averages, corpus)
    text = "Settings as run, of the first seed; the paper's stand in the last column where it states them."
    return Section("Hyper-parameters and learning curves", text, tuple(items)) if items else None


def tabulate_settings(runs: Mapping[str, TrainedModel], corpus: str) -> ReportTable | None:
    """Return the settings of some runs, one a row; None if there are none."""
    names = list(dict.fromkeys(name for run in runs.values() for name in run.settings if name != "training.seed"))
    if not names:
        return None
    models = [model for model, run in runs.items() if run.settings]
    rows = tuple(
        (name, *(_spell(runs[model].settings, name) for model in models), _spell(SETTINGS, name)) for name in names
    )
    columns = ("setting", *(name_model(model) for model in models), "paper")
    note = "A dash: the model has no such setting. In the paper a tenth is held out, and θ is 5 % and 95 %."
    return ReportTable(f"{corpus}: hyper-parameters as run.", columns, rows, note=note)


def _spell(settings: Mapping[str, Setting], name: str) -> str | None:
    """Return a setting as it is written in a configuration: rounded, small rates would read as 0."""
    setting = settings.get(name)
    if setting is None:
        return "off" if name in settings else None
    if isinstance(setting, bool):
        return str(setting).lower()
    return setting if isinstance(setting, str) else f"{setting:g}"


def _show_left_out(averages: Averages, left_out: Mapping[str, str]) -> Section | None:
    """Return what is not on the page, and what would bring it there."""
    rows: list[tuple[Cell, ...]] = []
    for task, reason in left_out.items():
        name = task.split(" of ")[0]  # a task may be left out for one model alone
        titles = [each.title for each in SECTIONS.values() if name in each.tasks]
        rows.append((task, ", ".join(titles) or None, reason))
    tried = {*left_out, *(record.task for record in averages.records)}
    for layout in SECTIONS.values():
        missing = [task for task in layout.tasks if task not in tried]
        tried.update(missing)
        if missing:
            command = f"navi evaluate CORPUS -o RESULTS --tasks {','.join(missing)}"
            rows.append((", ".join(missing), layout.title, f"not asked for: {command}"))
    if not rows:
        return None
    text = "Tasks without figures in these results, the sections that they fill, and what would make them possible."
    return Section(
        "What was left out", text, (ReportTable("What was left out.", ("task", "fills", "why"), tuple(rows)),)
    )


def _show_failed(failed: Iterable[Record]) -> Section | None:
    rows = tuple(
        (each.task, each.corpus, name_model(each.model), each.seed, (each.error or "")[:LONGEST_ERROR])
        for each in failed
    )
    if not rows:
        return None
    columns = ("task", "corpus", "model", ReportColumn("seed"), "error")
    text = "These cells have no figures. The same command tries them again, and them alone."
    return Section("What failed", text, (ReportTable("Cells that failed.", columns, rows),))


def _show_origin(averages: Averages) -> Section | None:
    """Return which commands, versions and devices the figures come from."""
    if not averages.records:
        return None
    commands = dict.fromkeys(str(record.about["command"]) for record in averages.records if "command" in record.about)
    origins: dict[tuple[Cell, ...], None] = {}
    for record in averages.records:
        versions = ", ".join(f"{name} {version}" for name, version in record.about.get("versions", {}).items())
        device, fingerprint = (str(record.about.get(name, "")) for name in ("device", "fingerprint"))
        origins[record.corpus, device, versions, fingerprint[:16]] = None
    columns = ("corpus", "device", "versions", "fingerprint of the corpus")
    items: list[Item] = [Code("\n".join(commands))] if commands else []
    items.append(ReportTable("Where the figures were made.", columns, tuple(origins)))
    minutes = sum(record.seconds for record in averages.records) / 60
    text = f"{len(averages.records)} cells, measured in {minutes:.0f} minutes, training apart."
    return Section("Where the figures come from", text, tuple(items))


def _join(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
