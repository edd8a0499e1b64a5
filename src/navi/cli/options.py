"""Arguments and options that several verbs share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import typer

from navi.cli.console import quote

INT8_ROWS = 200
"""Rows from which opening a model in int8, some three seconds, pays."""
Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATHS", help="Files, folders or quoted glob patterns.", show_default=False),
]
TablePath = Annotated[Path, typer.Argument(metavar="TABLE", help="One table, of any format.", show_default=False)]
CorpusFolder = Annotated[
    Path, typer.Argument(metavar="CORPUS", help="A corpus that `navi prepare` wrote.", show_default=False)
]
ModelFolder = Annotated[
    Path | None,
    typer.Option(
        "--model",
        "-m",
        metavar="DIR",
        help="The model to ask, as `navi pretrain` wrote it.",
        show_default="navi-base, which comes along",
    ),
]
Backbone = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Whose tokenizer: `minilm`, a folder with a BERT, or a hub name.", show_default=False
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE.toml", help="TOML file with further settings.", show_default=False),
]
Device = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="cpu, cuda, or several: cuda:0,cuda:1.", show_default="the best there is"),
]
EngineName = Annotated[
    Literal["local", "ray"],
    typer.Option("--engine", help="Where files are worked on: here, or by Ray's workers (RAY_ADDRESS)."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer alone.")]
Json = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]


Sheet = Annotated[
    str | None,
    typer.Option("--sheet", metavar="NAME", help="The sheet to read of each workbook.", show_default="all of them"),
]
SafeCsv = Annotated[
    bool, typer.Option("--safe-csv", help="Put a quote before cells of CSV that a spreadsheet would run as formulas.")
]


def choose_precision(device: str | None, num_rows: int) -> str | None:
    """Return int8 for many rows on a CPU, where the extra for it is installed; else what the device takes."""
    import torch

    on_cpu = device == "cpu" or (device is None and not torch.cuda.is_available())
    return "int8" if on_cpu and num_rows >= INT8_ROWS and find_spec("openvino") else None


def pick_sheet(paths: Iterable[Path], sheet: str | None) -> list[Path]:
    """Return paths with the sheet behind them that is wanted of each workbook.

    >>> pick_sheet([Path("prices.xlsx"), Path("films.csv")], "2024")
    [PosixPath('prices.xlsx#2024'), PosixPath('films.csv')]
    """
    may_be_workbook = re.compile(r"\.xls[xm](?:\.\w+)?$|[*?\[]", re.IGNORECASE)
    return [
        Path(f"{path}#{sheet}") if sheet and (path.is_dir() or may_be_workbook.search(str(path))) else path
        for path in paths
    ]


def split_names(text: str | None) -> list[str] | None:
    """Return the names between commas; None for all.

    >>> split_names("genre, country"), split_names(None)
    (['genre', 'country'], None)
    """
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def show_model(folder: Path | None) -> str:
    """Return the option that names a model, for a command to suggest; nothing for the one that comes along."""
    return "" if folder is None else f"--model {quote(folder)} "
