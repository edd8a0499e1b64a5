"""`navi demo`: every step in turn, and what to type next."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from shutil import which
from time import monotonic
from typing import Annotated

import typer

from navi.cli.console import Screen
from navi.cli.demo.steps import STEPS
from navi.cli.demo.tour import Tour
from navi.cli.options import Json, Quiet
from navi.cli.render import format_duration, make_heading, quote

EXAMPLES = ("navi demo", "navi demo --folder films --seed 7 --minutes 2")


def demo(
    folder: Annotated[Path, typer.Option(help="Where everything is kept.")] = Path("navi-demo"),
    seed: Annotated[int, typer.Option(help="Another seed makes another world.")] = 0,
    minutes: Annotated[float, typer.Option(min=0.01, help="Time for pretraining, about.")] = 5.0,
    catalogues: Annotated[int, typer.Option(min=2, help="Tables to make.", hidden=True)] = 14,
    rows: Annotated[int | None, typer.Option(min=2, help="Rows of all tables.", hidden=True)] = None,
    backbone: Annotated[str, typer.Option(help="The BERT to start from.", hidden=True)] = "minilm",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Go the whole way on tables it makes itself, in minutes on a laptop."""
    screen, started = Screen(quiet=quiet, as_json=as_json), monotonic()
    tour = Tour(
        folder=folder,
        screen=screen,
        seed=seed,
        minutes=minutes,
        num_catalogues=catalogues,
        num_rows=rows,
        backbone=backbone,
    )
    tour.check_folder()
    for number, step in enumerate(STEPS, start=1):
        screen.summarise("", make_heading(f"{number}. {step.title}"))
        step.take(tour)
    seconds = monotonic() - started
    screen.answer_json({"folder": folder, "seconds": seconds, "scores": [asdict(score) for score in tour.scores]})
    screen.answer("", make_heading("What came out"), tour.list_scores())
    screen.summarise(
        f"{format_duration(seconds)} in all; tables, corpus and model are in {folder}.",
        "Next, the same with a folder of your own tables:",
        "  navi inspect FOLDER",
        "  navi prepare FOLDER -o corpus",
        "  navi pretrain corpus -o model",
        f"or ask this model:  navi match --model {quote(tour.model_folder)} {quote(tour.tables)}",
        *tell_where_navi_is(),
    )


def tell_where_navi_is() -> list[str]:
    """Return how `navi` comes onto the path, for who started it through `make` and has not activated anything."""
    activate = Path(sys.prefix) / "bin" / "activate"
    if which("navi") is not None or not activate.is_file():
        return []
    return [f"`navi` is not on your path yet:  source {quote(activate)}"]
