"""`navi evaluate` and `navi report`: the paper's tables and figures beside every baseline, and pages of results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from navi.cli.app import Run, split_names, verb
from navi.cli.console import count_things, format_count, make_heading, make_table, quote
from navi.cli.learn import make_pretrain_config
from navi.errors import ConfigError

if TYPE_CHECKING:
    from navi_paper import GridReport


@verb(
    "Measure",
    "navi evaluate corpus -o results",
    "navi evaluate corpus -o results --gold gold/movie --models bert,navi",
    "navi evaluate corpus -o results --take navi=model --tasks generative,clustering",
    options="config device as_json",
)
def evaluate(
    run: Run,
    corpus: Annotated[Path, Argument(metavar="CORPUS", help="A corpus that `navi prepare` wrote.", show_default=False)],
    out: Path = Option(..., "--out", "-o", metavar="RESULTS", help="Folder of results; figures that are there stay."),
    gold: Path | None = Option(
        None, metavar="PREFIX", help="Gold: PREFIX_concepts.csv, PREFIX_labels.json, PREFIX_synonyms.json."
    ),
    rates: Path | None = Option(None, metavar="FILE.json", help="Validation losses of baselines by learning rate."),
    models: str | None = Option(
        None, metavar="A,B", help="Models, commas between them.", show_default="all of the paper's"
    ),
    tasks: str | None = Option(None, metavar="A,B", help="Tasks, commas between them.", show_default="all"),
    take: list[str] | None = Option(
        None,
        metavar="NAME=MODEL",
        help="Measure this trained model instead of training one; repeatable.",
        show_default=False,
    ),
    name: str | None = Option(None, help="What the corpus is called.", show_default="its folder's name"),
    seeds: str = Option("0", metavar="0,1", help="Each model is trained once a seed."),
    rows: int | None = Option(None, help="Rows of a task.", show_default="1000"),
    runs: int | None = Option(None, help="Runs of row classification.", show_default="8"),
    max_steps: int | None = Option(None, metavar="N", help="Train each model for N steps."),
) -> None:
    """Compare NAVI, its ablations and the paper's baselines on a corpus; run again, it continues."""
    from navi.corpus import Corpus
    from navi_paper import MODELS, EvaluationConfig
    from navi_paper import evaluate as evaluate_models

    screen, opened = run.screen, Corpus.open(corpus, verify=True)
    amounts = {key: value for key, value in (("rows", rows), ("runs", runs)) if value is not None}
    flags = {"training": {"max_steps": max_steps}}
    settings = make_pretrain_config(flags, str(opened.config.backbone), preset="default", file=run.config)
    with screen.follow() as meter:

        def report(at: GridReport) -> None:
            detail = at.doing
            if at.training is not None:
                detail += f", step {format_count(at.training.step)} of {format_count(at.training.num_steps)}"
            meter.update("Evaluating", at.done, at.total, detail)

        summary = evaluate_models(
            opened,
            out,
            gold=gold,
            rates=rates,
            name=name,
            models=split_names(models) or MODELS,
            tasks=split_names(tasks),
            seeds=read_seeds(seeds),
            pretrain=settings,
            config=EvaluationConfig(**amounts),
            taken=read_pairs(take or []),
            device=run.device,
            progress=report,
        )
    failed = [{name: getattr(each, name) for name in ("task", "model", "seed", "error")} for each in summary.failed]
    screen.answer_json({"done": summary.done, "failed": failed, "left_out": summary.left_out})
    screen.summarise(make_heading(f"Results {out}: {count_things(summary.done, 'cell')} with figures"))
    if failed:
        shown = make_table(
            list(failed[0]), [["" if cell is None else str(cell) for cell in each.values()] for each in failed]
        )
        screen.summarise(f"{count_things(len(failed), 'cell')} failed; the same command tries them again.", "", shown)
    screen.summarise(*(f"Left out: {task}: {reason}." for task, reason in summary.left_out.items()))
    if failed and summary.done == 0:
        raise typer.Exit(1)
    screen.suggest("look at the tables and figures", f"navi report {quote(out)} --open")


def read_seeds(text: str) -> list[int]:
    """Return the numbers between commas."""
    names = split_names(text) or []
    if not names or not all(name.isdigit() for name in names):
        raise ConfigError(f"--seeds takes whole numbers with commas between them, got '{text}'.")
    return [int(name) for name in names]


def read_pairs(texts: list[str]) -> dict[str, Path]:
    """Return the folder of each model that is to be taken, from texts like `navi=model`."""
    pairs = {}
    for text in texts:
        name, sign, folder = text.partition("=")
        if not (name and sign and folder):
            raise ConfigError(f"--take wants NAME=MODEL, got '{text}'.")
        pairs[name] = Path(folder)
    return pairs


@verb(
    "Measure",
    "navi report navi-demo",
    "navi report results --open",
    "navi report results --tables tables.md",
    options="overwrite as_json",
)
def report(
    run: Run,
    results: Annotated[Path, Argument(metavar="RESULTS", help="A folder of results.", show_default=False)],
    show: bool = Option(False, "--open", help="Open the page in a browser."),
    tables: Path | None = Option(None, metavar="FILE.md", help="Write words and tables as Markdown, too."),
) -> None:
    """Write the results of a demo or an evaluation as one HTML page that opens offline."""
    from navi.files import write_file
    from navi.report import load_page, write_html, write_markdown

    screen = run.screen
    page = load_page(results)
    run.check_outputs([], others=[tables])
    screen.note(f"Drawing {page.title!r}.")
    if tables is not None:
        with write_file(tables) as aside:
            aside.write_text(write_markdown(page), encoding="utf-8")
    file = write_html(page, results, overwrite=run.overwrite)
    screen.answer_json({"page": file, "tables": tables, "sections": [section.title for section in page.sections]})
    screen.summarise(f"Written: {file}" + (f" and {tables}" if tables is not None else ""))
    if show:
        import webbrowser

        webbrowser.open(file.resolve().as_uri())
