"""`navi prepare`: from tables to a corpus."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from navi.cli.console import Screen
from navi.cli.options import Backbone, ConfigFile, Json, Overwrite, Paths, Quiet
from navi.cli.progress import follow_preparing, show_progress
from navi.cli.read_summary import summarise_manifest
from navi.cli.render import count_things, format_count, format_duration, make_heading, quote, tell_next
from navi.settings import override, read_settings

if TYPE_CHECKING:
    from navi.corpus import Corpus, PrepareConfig

EXAMPLES = (
    "navi prepare films/ -o corpus",
    "navi prepare feeds/ -o corpus --unseen-tables 10 --attributes mapping.json",
)


def prepare(
    paths: Paths,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="CORPUS", help="Directory to write.")],
    backbone: Backbone = None,
    seed: Annotated[int | None, typer.Option(help="Decides splits and samples.", show_default="0")] = None,
    attributes: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Attributes of headers, as `navi match --mapping` writes them."),
    ] = None,
    unseen_tables: Annotated[
        str | None, typer.Option(metavar="N|NAMES", help="Tables kept out of training: how many, or which (a,b).")
    ] = None,
    largest_tables: Annotated[int | None, typer.Option(metavar="N", help="Keep the N tables with most rows.")] = None,
    total_rows: Annotated[int | None, typer.Option(metavar="N", help="Sample down to N rows in all.")] = None,
    max_value_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Cut values at N tokens.", show_default="20")
    ] = None,
    workers: Annotated[int | None, typer.Option(metavar="N", help="Processes.", show_default="one a core")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Make the first loss an error.")] = False,
    overwrite: Overwrite = False,
    config: ConfigFile = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Clean, split and tokenise tables into a corpus."""
    from navi.corpus import prepare as prepare_corpus

    screen, started = Screen(quiet=quiet, as_json=as_json), monotonic()
    settings = make_prepare_config(
        config,
        backbone=backbone,
        seed=seed,
        attributes=attributes,
        unseen_tables=parse_unseen(unseen_tables),
        largest_tables=largest_tables,
        total_rows=total_rows,
        max_value_tokens=max_value_tokens,
        workers=workers,
        strict=strict,
    )
    with show_progress(screen) as meter:
        corpus = prepare_corpus(paths, out, settings, follow_preparing(meter), overwrite=overwrite)
    seconds = monotonic() - started
    screen.answer_json(describe_corpus(corpus, seconds))
    screen.summarise(*summarise_corpus(corpus, seconds))
    model = out.with_name("model") if out.name == "corpus" else out.with_name(f"{out.name}-model")
    screen.summarise(tell_next(f"navi pretrain {quote(out)} -o {quote(model)}", "learn from it"))


def make_prepare_config(file: Path | None, *, strict: bool = False, **flags: Any) -> PrepareConfig:
    """Return the settings of `navi prepare`: the file's section [prepare], then flags that were given."""
    from navi.corpus import PrepareConfig

    content = read_settings(file)
    section = {name: content[name] for name in ("backbone",) if name in content} | content.get("prepare", {})
    config = override(PrepareConfig(), section, "prepare.") if section else PrepareConfig()
    read = replace(config.read, strict=True) if strict else config.read
    return replace(config, read=read, **{name: value for name, value in flags.items() if value is not None})


def parse_unseen(text: str | None) -> int | tuple[str, ...] | None:
    """Return how many tables are to stay unseen, or their names.

    >>> parse_unseen("3"), parse_unseen("reelbase, filmhub")
    (3, ('reelbase', 'filmhub'))
    """
    if text is None:
        return None
    if text.strip().isdecimal():
        return int(text)
    return tuple(name.strip() for name in text.split(",") if name.strip())


def describe_corpus(corpus: Corpus, seconds: float) -> dict[str, Any]:
    """Return the summary ready for JSON."""
    manifest = corpus.manifest
    return {
        "corpus": corpus.path,
        "fingerprint": corpus.fingerprint,
        "totals": manifest["totals"],
        "splits": count_splits(corpus),
        **summarise_manifest(manifest).as_dict(),
        "seconds": round(seconds, 3),
    }


def count_splits(corpus: Corpus) -> dict[str, int]:
    """Return the number of rows of each split."""
    tables = corpus.manifest["tables"]
    return {name: sum(table["splits"][name] for table in tables) for name in tables[0]["splits"]}


def summarise_corpus(corpus: Corpus, seconds: float) -> list[Any]:
    """Return what was made, what was left out and where the full list is."""
    totals, losses = corpus.manifest["totals"], summarise_manifest(corpus.manifest)
    splits = ", ".join(f"{format_count(count)} {name}" for name, count in count_splits(corpus).items() if count)
    dropped = losses.rows.total()
    lines: list[Any] = [
        make_heading(
            f"Corpus {corpus.path}: {count_things(totals['tables'], 'table')}, {format_count(totals['rows'])} rows"
        ),
        f"{format_count(totals['read'])} rows read, {format_count(totals['rows'])} kept ({splits}), "
        f"{format_count(dropped)} dropped.",
        f"{format_count(totals['cells'])} cells as {format_count(totals['segments'])} segments of "
        f"{format_count(totals['headers'])} headers, {format_count(totals['attributes'])} attributes; "
        f"{format_count(totals['tokens'])} tokens.",
        f"{format_duration(seconds)}, {format_count(totals['read'] / max(seconds, 1e-3))} rows/s.",
    ]
    told = losses.list_lines()
    if told:
        lines += ["Left out or changed:", *told, f"The full list is in {corpus.path / 'corpus.json'}."]
    return lines
