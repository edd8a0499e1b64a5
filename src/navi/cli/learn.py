"""`navi inspect`, `navi prepare` and `navi pretrain`: what is in tables, a corpus of them, and a model of that."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import wrap
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from navi.backbones import BASE_MODEL, MINILM
from navi.cli.app import verb
from navi.cli.console import (
    Meter,
    Screen,
    count_things,
    find_free,
    format_count,
    format_duration,
    format_loss,
    format_share,
    make_heading,
    make_table,
    quote,
    shorten,
)
from navi.cli.options import (
    NUM_PLACES,
    Backbone,
    ConfigFile,
    EngineName,
    Json,
    Overwrite,
    Paths,
    Quiet,
    Sheet,
    list_lost,
    pick_sheet,
    split_names,
    summarise_manifest,
)
from navi.errors import TableError, TrainingInterrupted
from navi.settings import override, read_settings

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from navi.corpus import Corpus, InspectedTable, Inspection, PrepareConfig
    from navi.training import PretrainConfig, TrainingResult

NUM_COLUMNS, NUM_NOTES = 500, 50
"""Columns and notes shown of a table; `--json` has them all."""
COLUMNS = ("header", "attribute", "fill", "distinct", "entropy", "role", "tokens", "trouble", "examples")
SMALL, SMALL_COLUMNS = 130, ("header", "fill", "distinct", "entropy", "role", "examples")
"""What a terminal has room for that is narrower than so many characters."""
UNDECIDED = "undecided"
"""Role of a column that has too few cells to tell one by."""
_RIGHT = ("fill", "distinct", "entropy", "tokens", "rows", "columns", "dropped")
MEASURES = {
    "masked_loss": ("loss of masked tokens", None),
    "header_accuracy_informed": ("headers, attribute known (informed)", "most_frequent_header"),
    "header_accuracy_blind": ("headers, attribute hidden (blind)", "most_frequent_header"),
    "value_accuracy": ("values", "most_frequent_value"),
    "column_accuracy": ("columns found again (not learned)", None),
}
"""Measures of validation, what they are called, and the guess that each is to beat."""
WORTH = {
    "column_accuracy": "columns matched",
    "header_accuracy_blind": "headers named",
    "value_accuracy": "values filled",
}
"""The measures that say whether a model serves better than the one it started from, and what a user calls them."""
Start = Annotated[
    str | None,
    typer.Option(
        "--from",
        "--backbone",
        metavar="NAME",
        help="Start from `navi-base`, `minilm`, a model's or a BERT's folder, or a hub name.",
        show_default="navi-base, or what the corpus was prepared for",
    ),
]


@verb("Start", "navi inspect films/ 'more/*.csv.gz'", "navi inspect corpus --table imdb", "navi inspect films/ --json")
def inspect(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATHS|CORPUS", help="Tables, or one corpus directory.", show_default=False),
    ],
    table: Annotated[list[str] | None, typer.Option(help="Show this table alone; repeatable.")] = None,
    short: Annotated[bool, typer.Option("--short", help="One line a table, no columns.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare every byte of a corpus with its checksums.")
    ] = False,
    sheet: Sheet = None,
    backbone: Backbone = None,
    config: ConfigFile = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what is in tables or a corpus: columns, fill, distinct values, entropy, roles, and trouble."""
    from navi.corpus import Corpus, inspect_corpus, inspect_paths

    screen = Screen(quiet=quiet, as_json=as_json)
    if len(paths) == 1 and (paths[0] / "corpus.json").is_file():
        found = inspect_corpus(Corpus.open(paths[0], verify=verify))
    else:
        settings = make_prepare_config(config, backbone=backbone)
        with screen.follow() as meter:
            found = inspect_paths(pick_sheet(paths, sheet), settings, meter.show_preparing)
    known = {each.name: each for each in found.tables}
    for name in set(table or ()) - known.keys():
        raise TableError(f"There is no table '{name}'. Expected one of {', '.join(known)}.")
    if table:
        found = replace(found, tables=[each for name, each in known.items() if name in table])
    screen.answer_json(found.as_dict())
    if short:
        screen.answer(list_tables(found, screen.results.width))
    else:
        for each in found.tables:
            screen.answer(*describe_table(each, screen.results.width), "")
    counted = ("table", "row", "cell", "column", "header", "attribute", "segment", "token")
    totals = ", ".join(count_things(found.totals[f"{thing}s"], thing) for thing in counted)
    screen.answer(
        f"In all {totals}.",
        *(f"Left out: {each.name} ({_join(each.dropped) or 'no rows'})" for each in found.left_out),
        *(f"Skipped: {entry['path']} ({entry['reason']})" for entry in found.skipped),
    )


def describe_table(table: InspectedTable, width: int) -> list[RenderableType]:
    """Return a table of the columns of one table, each on one line, and what else is to be said of it."""
    title = f"{table.name}: {count_things(table.rows, 'row')}, {count_things(len(table.columns), 'column')}"
    names, rows, trouble = COLUMNS if width >= SMALL else SMALL_COLUMNS, [], defaultdict[str, list[str]](list)
    for column in table.columns[:NUM_COLUMNS]:
        cells = {
            "header": shorten(column.header, 24),
            "attribute": shorten(column.attribute, 16),
            "fill": format_share(column.fill),
            "distinct": format_count(column.distinct),
            "entropy": format_loss(column.entropy),
            "role": UNDECIDED if column.entropy is None else column.role,
            "tokens": f"{column.mean_tokens:.1f}",
            "trouble": ", ".join(column.trouble),
            "examples": " | ".join(column.examples),
        }
        rows.append([cells[name] for name in names])
        for each in column.trouble:
            trouble[each].append(cells["header"])
    lines = []
    for what, counts in (("dropped", table.dropped), ("cells", table.cells)):
        lines += [f"  {what}: {_join(counts)}"] if counts else []
        lines += [f"    {place}" for reason in counts for place in table.places.get(reason, [])[:NUM_PLACES]]
    if "trouble" not in names:
        for each, headers in trouble.items():
            lines += wrap(f"{each}: {', '.join(headers)}", width, initial_indent="  ", subsequent_indent="    ")
    if any(column.entropy is None for column in table.columns):
        lines.append(f"  {UNDECIDED}: fewer than two cells to train on; add rows to tell entropy and role")
    lines += [f"  {note}" for note in table.notes[:NUM_NOTES]]
    for rest, what in ((len(table.columns) - NUM_COLUMNS, "column"), (len(table.notes) - NUM_NOTES, "note")):
        if rest > 0:
            lines.append(f"  and {count_things(rest, what)} more: --json lists all")
    return [make_table(names, rows, title=title, right=_RIGHT, width=width), *lines]


def list_tables(found: Inspection, width: int) -> Table:
    """Return one line for each table."""
    rows = []
    for table in found.tables:
        counts = (table.rows, len(table.columns), sum(table.dropped.values()))
        headers = ", ".join(column.header for column in table.columns)
        rows.append((table.name, *map(format_count, counts), headers))
    return make_table(("table", "rows", "columns", "dropped", "headers"), rows, right=_RIGHT, width=width)


def _join(counts: dict[str, int]) -> str:
    return ", ".join(f"{reason} ({format_count(count)})" for reason, count in counts.items())


@verb(
    "Learn",
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
    validation_tables: Annotated[
        str | None, typer.Option(metavar="N|NAMES", help="Tables kept out of training to choose settings on.")
    ] = None,
    largest_tables: Annotated[int | None, typer.Option(metavar="N", help="Keep the N tables with most rows.")] = None,
    total_rows: Annotated[int | None, typer.Option(metavar="N", help="Sample down to N rows in all.")] = None,
    max_value_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Cut values at N tokens.", show_default="20")
    ] = None,
    workers: Annotated[int | None, typer.Option(metavar="N", help="Processes.", show_default="one a core")] = None,
    sheet: Sheet = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first row or cell that would be lost.")] = False,
    engine: EngineName = "local",
    overwrite: Overwrite = False,
    config: ConfigFile = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Turn tables into a corpus: rows split into training and test, values tokenised, losses listed."""
    from navi.corpus import SPLITS
    from navi.corpus import prepare as prepare_corpus

    screen, started = Screen(quiet=quiet, as_json=as_json), monotonic()
    settings = make_prepare_config(
        config,
        backbone=backbone,
        seed=seed,
        attributes=attributes,
        unseen_tables=parse_tables(unseen_tables),
        validation_tables=parse_tables(validation_tables),
        largest_tables=largest_tables,
        total_rows=total_rows,
        max_value_tokens=max_value_tokens,
        workers=workers,
        strict=strict,
    )
    with screen.follow() as meter:
        chosen = pick_sheet(paths, sheet)
        corpus = prepare_corpus(chosen, out, settings, meter.show_preparing, overwrite=overwrite, engine=engine)
    seconds = monotonic() - started
    screen.answer_json(
        {
            "corpus": corpus.path,
            "fingerprint": corpus.fingerprint,
            "totals": corpus.manifest["totals"],
            "splits": {split: len(corpus.rows_of(split)) for split in SPLITS},
            **summarise_manifest(corpus.manifest),
            "seconds": round(seconds, 3),
        }
    )
    screen.summarise(*describe_corpus(corpus, seconds))
    model = find_free(out.with_name("model" if out.name == "corpus" else f"{out.name}-model"))
    screen.suggest("learn from it", f"navi pretrain {quote(out)} -o {quote(model)}")


def make_prepare_config(file: Path | None, *, strict: bool = False, **flags: Any) -> PrepareConfig:
    """Return the settings of `navi prepare`: the file's section [prepare], then flags that were given."""
    from navi.corpus import PrepareConfig

    content = read_settings(file)
    shared = {name: content[name] for name in ("backbone",) if name in content}
    config = override(override(PrepareConfig(), shared), content.get("prepare", {}), "prepare.")
    read = replace(config.read, strict=True) if strict else config.read
    return replace(config, read=read, **{name: value for name, value in flags.items() if value is not None})


def parse_tables(text: str | None) -> int | tuple[str, ...] | None:
    """Return how many tables are to be kept out, or their names.

    >>> parse_tables("3"), parse_tables("reelbase, filmhub")
    (3, ('reelbase', 'filmhub'))
    """
    if text is None or text.strip().isdecimal():
        return None if text is None else int(text)
    return tuple(split_names(text) or ())


def describe_corpus(corpus: Corpus, seconds: float) -> list[RenderableType]:
    """Return what was made, what was left out and where the full list is."""
    from navi.corpus import SPLITS

    lost, read = summarise_manifest(corpus.manifest), corpus.manifest["totals"]["read"]
    dropped = sum(lost["dropped"].values())
    totals = {name: format_count(count) for name, count in corpus.manifest["totals"].items()}
    sizes = {split: len(corpus.rows_of(split)) for split in SPLITS}
    splits = ", ".join(f"{format_count(size)} {split}" for split, size in sizes.items() if size)
    lines: list[RenderableType] = [
        make_heading(f"Corpus {corpus.path}: {count_things(len(corpus.tables), 'table')}, {totals['rows']} rows"),
        f"{totals['read']} rows read, {totals['rows']} kept ({splits}), {format_count(dropped)} dropped.",
        f"{totals['cells']} cells as {totals['segments']} segments of {totals['headers']} headers, "
        f"{totals['attributes']} attributes; {totals['tokens']} tokens.",
        f"{format_duration(seconds)}, {format_count(read / max(seconds, 1e-3))} rows/s.",
    ]
    if left_out := list_lost(lost):
        lines += ["Left out or changed:", *left_out, f"The full list is in {corpus.path / 'corpus.json'}."]
    return lines


@verb(
    "Learn",
    "navi pretrain corpus -o model",
    "navi pretrain films/ -o model --minutes 10",
    "navi pretrain films/ -o model --resume",
    "navi pretrain films/ -o model --finish",
    "navi pretrain corpus -o paper --preset paper --ablation without_alignment",
)
def pretrain(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="A folder of tables, or a corpus that `navi prepare` wrote.", show_default=False
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="MODEL", help="Directory to write.")],
    preset: Annotated[
        Literal["default", "laptop", "paper"] | None,
        typer.Option(help="Settings by name.", show_default="laptop without a GPU, else default"),
    ] = None,
    ablation: Annotated[
        str | None, typer.Option(metavar="NAME", help="Take one part away: without_alignment, without_views …")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Times each row is seen.", show_default="as many as help, up to 10")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(metavar="N", help="Learn for about N minutes.", show_default="10 without a GPU")
    ] = None,
    max_steps: Annotated[int | None, typer.Option(metavar="N", help="Stop after N steps.")] = None,
    rows_per_batch: Annotated[
        int | None, typer.Option(metavar="N", help="Rows a step.", show_default="256, 16 without a GPU")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Decides everything random.", show_default="0")] = None,
    backbone: Start = None,
    precision: Annotated[
        Literal["auto", "float32", "bfloat16"] | None, typer.Option(help="Arithmetic.", show_default="auto")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on exactly where the run stopped.")] = False,
    finish: Annotated[bool, typer.Option("--finish", help="Take a stopped run as it is; no further steps.")] = False,
    values: Annotated[
        bool, typer.Option("--values/--no-values", help="Keep values of the tables in the model's directory.")
    ] = True,
    overwrite: Overwrite = False,
    config: ConfigFile = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Learn a model from a folder of tables or a corpus; Ctrl-C saves a checkpoint, --resume continues."""
    screen, goes_on = Screen(quiet=quiet, as_json=as_json), resume or finish
    with stop_before_training(), screen.follow() as meter:
        from navi.training import make_preset
        from navi.training import pretrain as pretrain_model

        make_preset(preset or "default", ablation)  # a name that is mistyped is said before any work
        prepared = make_prepare_config(config, backbone=backbone)
        opened = open_or_prepare(source, out, prepared, meter, resume=goes_on, overwrite=overwrite)
        meter.wait("Loading, and measuring the model as it is")
        settings = make_pretrain_config(
            choose_start(str(opened.config.backbone), preset),
            preset=preset,
            ablation=ablation,
            file=config,
            running=out if goes_on else None,
            flags={
                "training.epochs": epochs,
                "training.max_steps": max_steps,
                "training.minutes": minutes,
                "training.seed": seed,
                "training.precision": precision,
                "training.keep_values": None if values else False,
                "sampler.rows_per_batch": rows_per_batch,
                "backbone": backbone,
            },
        )
        result = pretrain_model(
            opened, out, settings, resume=resume, finish=finish, overwrite=overwrite, progress=meter.show_training
        )
    screen.answer_json(asdict(result))
    screen.summarise(*describe_training(result))
    if not result.config["training"]["keep_values"]:
        screen.summarise(f"{out} holds no values of your tables; the corpus that it was learned from still does.")
    command = f"navi match --model {quote(out)} {find_tables(opened)}"
    screen.suggest("find columns that mean the same in your tables", command)


@contextmanager
def stop_before_training() -> Iterator[None]:
    """Say how to go on where a signal comes before training listens itself: while the corpus is made, or loaded."""
    from navi.training.processes import Stopped, stop_on_signals

    with stop_on_signals():
        try:
            yield
        except Stopped as stop:
            raise TrainingInterrupted(
                f"Stopped by {stop} before training began; nothing is half-written. To go on: the same with --resume.",
                stop.number,
            ) from stop


def open_or_prepare(
    source: Path, out: Path, config: PrepareConfig, meter: Meter, *, resume: bool, overwrite: bool
) -> Corpus:
    """Return the corpus in a folder, or prepare one of its tables beside the model."""
    from navi.corpus import Corpus, prepare
    from navi.corpus.corpus import MANIFEST_FILE
    from navi.training.processes import Processes

    is_model = (source / "config.json").is_file()
    if not source.is_dir() or is_model or (source / MANIFEST_FILE).is_file():
        return Corpus.open(source, verify=True)
    made = out.with_name(f"{out.name}-corpus")
    processes = Processes.join()
    if processes.is_main and not (resume and (made / MANIFEST_FILE).is_file()):
        prepare([source], made, config, meter.show_preparing, overwrite=overwrite)
    processes.wait()
    return Corpus.open(made, verify=True)


def find_tables(corpus: Corpus) -> str:
    """Return the folder of a corpus's tables, for a command to suggest; a placeholder where they have moved."""
    folders = {str(Path(table["path"]).parent) for table in corpus.manifest["tables"]}
    with suppress(ValueError):
        if Path(found := os.path.commonpath(folders)).is_dir():
            return quote(found)
    return "PATHS…"


def choose_start(corpus_backbone: str, preset: str | None) -> str:
    """Return what training starts from: what the preset says if it has the corpus's vocabulary, else the corpus's.

    >>> choose_start("minilm", None), choose_start("minilm", "paper"), choose_start("bert-base-uncased", None)
    ('navi-base', 'minilm', 'bert-base-uncased')
    """
    from navi.training import make_preset

    named = make_preset(preset or "default").backbone
    return named if corpus_backbone in (BASE_MODEL, MINILM) else corpus_backbone


def make_pretrain_config(
    backbone: str,
    *,
    preset: str | None,
    ablation: str | None,
    file: Path | None,
    flags: Mapping[str, Any],
    running: Path | None = None,
) -> PretrainConfig:
    """Return the settings of `navi pretrain`: a preset, then the file, then flags, given as `section.name`.

    Training starts from `backbone` unless the file or a flag names another. Epochs or steps that are given replace the
    preset's minutes. A run that is to go on (`running` is its directory) keeps the settings it was started with, where
    no preset, ablation or file is given.
    """
    from navi.training import PretrainConfig, make_preset
    from navi.training.checkpoint import recall_config
    from navi.training.processes import choose_device
    from navi.training.run import choose_preset

    recorded = recall_config(running) if running and not (preset or ablation or file) else None
    base = recorded or replace(make_preset(preset or choose_preset(choose_device()), ablation), backbone=backbone)
    given = {name: content for name, content in read_settings(file).items() if name != "prepare"}
    PretrainConfig.from_dict(given, base)  # what is wrong in the file is said before flags are put over it
    for full_name, value in flags.items():
        *section, name = full_name.split(".")
        if value is not None:
            (given.setdefault(section[0], {}) if section else given)[name] = value
    length = given.get("training", {})
    if recorded is None and "minutes" not in length and {"epochs", "max_steps"} & set(length):
        base = replace(base, training=replace(base.training, minutes=None))
    return PretrainConfig.from_dict(given, base)


def describe_training(result: TrainingResult) -> list[RenderableType]:
    """Return what was learned, how long it took, whether it was worth it, and what else a user should know."""
    rate, num_rows = result.train.get("rows_per_second"), result.corpus.get("train_rows")
    learned = [] if num_rows is None else [count_things(num_rows, "training row")]
    learned += [format_duration(result.seconds)] if result.seconds else []
    learned += [f"{format_count(float(rate))} rows/s lately"] if rate else []
    lines: list[RenderableType] = [
        make_heading(f"Model {result.path}: {count_things(result.num_steps, 'step')} on {result.device}"),
        *([f"{', '.join(learned)}."] if learned else []),
        *(compare_validation(result.validation) if result.validation else []),
    ]
    if result.skipped:
        lines.append(f"{count_things(result.skipped, 'step')} skipped: the loss was not finite.")
    return lines + [f"Note: {note}" for note in result.notes]


def compare_validation(lines: list[dict[str, Any]]) -> list[RenderableType]:
    """Return the validation before and after, beside the most frequent guess, and whether training was worth it."""
    first, last = lines[0], lines[-1]
    rows, behind = [], []
    for name, (label, guess) in MEASURES.items():
        show = format_loss if name == "masked_loss" else format_share
        after, beat = last.get(name), first.get(guess) if guess else None
        if after is not None:
            rows.append((label, show(first.get(name)), show(after), format_share(beat) if guess else ""))
        if after is not None and beat is not None and after <= beat:
            behind.append(label)
    columns = ("validation rows", "before", "after", "most frequent guess")
    shown: list[RenderableType] = [make_table(columns, rows, right=columns[1:])]
    if len(lines) > 1:
        shown.append(judge_training(first, last))
    if behind:
        shown.append(f"No better than the most frequent guess yet: {'; '.join(behind)}. Train longer: --minutes.")
    return shown


def judge_training(first: Mapping[str, Any], last: Mapping[str, Any]) -> str:
    """Return one line that says what training changed for a user of the model.

    >>> judge_training({"value_accuracy": 0.2}, {"value_accuracy": 0.31})
    'Worth it? On rows and columns that it did not learn: values filled 20.0 % → 31.0 %. Better at all of it.'
    """
    known = {name: label for name, label in WORTH.items() if first.get(name) is not None}
    changes = [f"{label} {format_share(first[name])} → {format_share(last[name])}" for name, label in known.items()]
    same = [label for name, label in known.items() if last[name] <= first[name]]
    verdict = f"No better: {', '.join(same)}; for that, what it started from serves as well" if same else ""
    verdict = verdict or "Better at all of it"
    return f"Worth it? On rows and columns that it did not learn: {', '.join(changes)}. {verdict}."
