"""`navi embed`: vectors of rows, segments, headers or attributes, to Parquet."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from navi.cli.console import Screen
from navi.cli.options import Device, Json, ModelFolder, Paths, Quiet, require_model
from navi.cli.progress import follow_rows, show_progress
from navi.cli.read_summary import summarise_reports
from navi.cli.render import count_things, format_count, format_duration, make_heading, tell_next

if TYPE_CHECKING:
    from navi.verbs import EmbeddedFiles

EXAMPLES = (
    "navi embed --model model films/ -o rows.parquet",
    "navi embed --model model films/ -o cells.parquet --kind segments --dtype float16",
)


class Kind(StrEnum):
    """What gets a vector."""

    rows = "rows"
    segments = "segments"
    headers = "headers"
    attributes = "attributes"


class Pooling(StrEnum):
    """What stands for a row."""

    row = "row"
    cls = "cls"
    mean = "mean"
    values = "values"


class Dtype(StrEnum):
    """Numbers that are written."""

    float32 = "float32"
    float16 = "float16"


class Precision(StrEnum):
    """Arithmetic of the encoder."""

    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"
    int8 = "int8"


def embed(
    paths: Paths,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="OUT.parquet", help="File to write.")],
    model: ModelFolder = None,
    kind: Annotated[Kind, typer.Option(help="What gets a vector.")] = Kind.rows,
    pooling: Annotated[
        Pooling, typer.Option(help="What stands for a row: its embedding, [CLS], or a mean.")
    ] = Pooling.row,
    normalize: Annotated[bool, typer.Option("--normalize", help="Scale vectors to length 1.")] = False,
    dtype: Annotated[Dtype, typer.Option(help="Numbers that are written.")] = Dtype.float32,
    batch_size: Annotated[int | None, typer.Option(metavar="N", help="Most rows of a batch.")] = None,
    precision: Annotated[
        Precision | None,
        typer.Option(help="Arithmetic; int8 is for CPUs.", show_default="float32 on a CPU, else bfloat16"),
    ] = None,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write vectors to Parquet, with table, row and header beside each; files may be larger than memory."""
    from navi.verbs import Navi
    from navi.verbs.embed import EmbedConfig, check_parquet, embed_files

    screen, started = Screen(quiet=quiet, as_json=as_json), monotonic()
    model = require_model(model)
    config = EmbedConfig(batch_size=batch_size, normalize=normalize, dtype=str(dtype), pooling=str(pooling))
    check_parquet(out)
    with show_progress(screen) as meter:
        meter.wait("Loading the model")
        opened = Navi.from_pretrained(model, device=device, precision=precision and str(precision))
        report = follow_rows(meter, f"Embedding {kind} of")
        result = embed_files(opened, paths, out, kind=str(kind), config=config, progress=report)
    seconds = monotonic() - started
    screen.answer_json(describe_embedding(result, opened.hidden_size, seconds))
    screen.summarise(*summarise_embedding(result, opened.hidden_size, seconds))
    screen.summarise(tell_next(f"pandas.read_parquet({str(out)!r})", "read it in Python"))


def describe_embedding(result: EmbeddedFiles, size: int, seconds: float) -> dict[str, Any]:
    """Return the summary ready for JSON."""
    losses = summarise_reports(result.reports, result.skipped)
    return {
        "path": result.path,
        "vectors": result.num_vectors,
        "size": size,
        "tables": {name: each.kept for name, each in result.reports.items()},
        **losses.as_dict(),
        "seconds": round(seconds, 3),
    }


def summarise_embedding(result: EmbeddedFiles, size: int, seconds: float) -> list[Any]:
    """Return what was written, and what was left out."""
    told = summarise_reports(result.reports, result.skipped).list_lines()
    num_rows = sum(each.kept for each in result.reports.values())
    return [
        make_heading(f"{result.path}: {count_things(result.num_vectors, 'vector')} of {size} numbers"),
        f"{count_things(num_rows, 'row')} of {count_things(len(result.reports), 'table')}, {format_duration(seconds)}, "
        f"{format_count(num_rows / max(seconds, 1e-3))} rows/s.",
        *(["Left out or changed:", *told] if told else []),
    ]
