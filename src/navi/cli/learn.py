"""`navi inspect`, `navi prepare` and `navi pretrain`: what is in tables, a corpus of them, and a model of that."""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import wrap
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from navi.backbones import BASE_MODEL, MINILM
from navi.cli.app import NUM_PLACES, Paths, Run, list_lost, pick_sheet, split_names, summarise_manifest, verb
from navi.cli.console import (
    Meter,
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
from navi.errors import TableError
from navi.settings import override, read_settings

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from navi.corpus import Corpus, InspectedTable, Inspection, PrepareConfig
    from navi.training import PretrainConfig, TrainingResult

COLUMNS = ("header", "attribute", "fill", "distinct", "entropy", "role", "tokens", "trouble", "examples")
SMALL, SMALL_COLUMNS = 130, ("header", "fill", "distinct", "entropy", "role", "examples")
"""What a terminal has room for that is narrower than so many characters."""
UNDECIDED = "undecided"
"""Role of a column that has too few cells to tell one by."""
NUM_BEYOND = 8
"""Headers of columns beyond `max_tokens` that are named."""
_RIGHT = ("fill", "distinct", "entropy", "tokens", "rows", "columns", "dropped")
Start = Annotated[
    str | None,
    Option(
        "--from",
        "--backbone",
        metavar="NAME",
        help="Start from `navi-base`, `minilm`, a model's or a BERT's folder, or a hub name.",
        show_default="navi-base, or what the corpus was prepared for",
    ),
]


@verb(
    "Start",
    "navi inspect films/ 'more/*.csv.gz'",
    "navi inspect corpus --table imdb",
    "navi inspect films/ --json",
    options="sheet backbone config as_json",
)
def inspect(
    run: Run,
    paths: Annotated[
        list[Path], Argument(metavar="PATHS|CORPUS", help="Tables, or one corpus directory.", show_default=False)
    ],
    table: list[str] | None = Option(None, help="Show this table alone; repeatable."),
    short: bool = Option(False, help="One line a table, no columns."),
    verify: bool = Option(False, help="Compare every byte of a corpus with its checksums."),
) -> None:
    """Show what is in tables or a corpus: columns, fill, distinct values, entropy, roles, and trouble."""
    from navi.corpus import Corpus, inspect_corpus, inspect_paths

    screen = run.screen
    if len(paths) == 1 and (paths[0] / "corpus.json").is_file():
        found = inspect_corpus(Corpus.open(paths[0], verify=verify))
    else:
        settings = make_prepare_config(run.config, backbone=run.backbone)
        with screen.follow() as meter:
            found = inspect_paths(pick_sheet(paths, run.sheet), settings, meter.show_preparing)
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
    beyond = sum(len(each.beyond) for each in found.tables)
    more = f"; {count_things(beyond, 'column')} more beyond max_tokens" if beyond else ""
    screen.answer(
        f"In all {totals}{more}.",
        *(f"Left out: {each.name} ({_join(each.dropped) or 'no rows'})" for each in found.left_out),
        *(f"Skipped: {entry['path']} ({entry['reason']})" for entry in found.skipped),
    )


def describe_table(table: InspectedTable, width: int) -> list[RenderableType]:
    """Return a table of the columns of one table, each on one line, and what else is to be said of it."""
    num_columns = len(table.columns) + len(table.beyond)
    title = f"{table.name}: {count_things(table.rows, 'row')}, {count_things(num_columns, 'column')}"
    names, rows, trouble = COLUMNS if width >= SMALL else SMALL_COLUMNS, [], defaultdict[str, list[str]](list)
    for column in table.columns:
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
    if table.beyond:
        shown = [*map(shorten, table.beyond[:NUM_BEYOND]), *(["…"] if len(table.beyond) > NUM_BEYOND else [])]
        lines.append(
            f"  {count_things(len(table.beyond), 'column')} beyond max_tokens in every row: {', '.join(shown)}"
        )
    if any(column.entropy is None for column in table.columns):
        lines.append(f"  {UNDECIDED}: fewer than two cells to train on; add rows to tell entropy and role")
    lines += [f"  {note}" for note in table.notes]
    return [make_table(names, rows, title=title, right=_RIGHT, width=width), *lines]


def list_tables(found: Inspection, width: int) -> Table:
    """Return one line for each table."""
    rows = []
    for table in found.tables:
        counts = (table.rows, len(table.columns) + len(table.beyond), sum(table.dropped.values()))
        headers = ", ".join(column.header for column in table.columns)
        rows.append((table.name, *map(format_count, counts), headers))
    return make_table(("table", "rows", "columns", "dropped", "headers"), rows, right=_RIGHT, width=width)


def _join(counts: dict[str, int]) -> str:
    return ", ".join(f"{reason} ({format_count(count)})" for reason, count in counts.items())


@verb(
    "Learn",
    "navi prepare films/ -o corpus",
    "navi prepare feeds/ -o corpus --unseen-tables 10 --attributes mapping.json",
    options="sheet backbone engine overwrite config as_json",
)
def prepare(
    run: Run,
    paths: Paths,
    out: Path = Option(..., "--out", "-o", metavar="CORPUS", help="Directory to write."),
    seed: int | None = Option(None, help="Decides splits and samples.", show_default="0"),
    attributes: Path | None = Option(
        None, metavar="FILE.json", help="Attributes of headers, as `navi match --mapping` writes them."
    ),
    unseen_tables: str | None = Option(
        None, metavar="N|NAMES", help="Tables kept out of training: how many, or which (a,b)."
    ),
    validation_tables: str | None = Option(
        None, metavar="N|NAMES", help="Tables kept out of training to choose settings on."
    ),
    largest_tables: int | None = Option(None, metavar="N", help="Keep the N tables with most rows."),
    total_rows: int | None = Option(None, metavar="N", help="Sample down to N rows in all."),
    workers: int | None = Option(None, metavar="N", help="Processes.", show_default="one a core"),
    strict: bool = Option(False, help="Stop at the first row or cell that would be lost."),
) -> None:
    """Turn tables into a corpus: rows split into training and test, values tokenised, losses listed."""
    from navi.corpus import SPLITS
    from navi.corpus import prepare as prepare_corpus

    screen, started = run.screen, monotonic()
    settings = make_prepare_config(
        run.config,
        backbone=run.backbone,
        seed=seed,
        attributes=attributes,
        unseen_tables=parse_tables(unseen_tables),
        validation_tables=parse_tables(validation_tables),
        largest_tables=largest_tables,
        total_rows=total_rows,
        workers=workers,
        strict=strict,
    )
    with screen.follow() as meter:
        corpus = prepare_corpus(
            pick_sheet(paths, run.sheet),
            out,
            settings,
            meter.show_preparing,
            overwrite=run.overwrite,
            engine=run.engine,
        )
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
    options="overwrite config as_json",
)
def pretrain(
    run: Run,
    source: Annotated[
        Path,
        Argument(
            metavar="SOURCE", help="A folder of tables, or a corpus that `navi prepare` wrote.", show_default=False
        ),
    ],
    out: Path = Option(..., "--out", "-o", metavar="MODEL", help="Directory to write."),
    preset: Literal["default", "laptop", "paper"] | None = Option(
        None, help="Settings by name.", show_default="laptop without a GPU, else default"
    ),
    ablation: str | None = Option(None, metavar="NAME", help="Take one part away: without_alignment, without_views …"),
    epochs: int | None = Option(None, help="Times each row is seen.", show_default="as many as help, up to 10"),
    minutes: float | None = Option(
        None, metavar="N", help="Learn for about N minutes.", show_default="10 without a GPU"
    ),
    max_steps: int | None = Option(None, metavar="N", help="Stop after N steps."),
    rows_per_batch: int | None = Option(None, metavar="N", help="Rows a step.", show_default="256, 16 without a GPU"),
    seed: int | None = Option(None, help="Decides everything random.", show_default="0"),
    backbone: Start = None,
    resume: bool = Option(False, help="Go on exactly where the run stopped."),
    finish: bool = Option(False, help="Take a stopped run as it is; no further steps."),
    values: bool = Option(True, "--values/--no-values", help="Keep values of the tables in the model's directory."),
) -> None:
    """Learn a model from a folder of tables or a corpus; Ctrl-C saves a checkpoint, --resume continues."""
    from navi.training import make_preset
    from navi.training import pretrain as pretrain_model
    from navi.training.processes import stop_on_signals

    screen, goes_on = run.screen, resume or finish
    with stop_on_signals(), screen.follow() as meter:
        make_preset(preset or "default", ablation)  # a name that is mistyped is said before any work
        prepared = make_prepare_config(run.config, backbone=backbone)
        opened = open_or_prepare(source, out, prepared, meter, resume=goes_on, overwrite=run.overwrite)
        meter.wait("Loading, and measuring the model as it is")
        length = {"epochs": epochs, "max_steps": max_steps, "minutes": minutes}
        training = {**length, "seed": seed, "keep_values": None if values else False}
        settings = make_pretrain_config(
            {"backbone": backbone, "sampler": {"rows_per_batch": rows_per_batch}, "training": training},
            str(opened.config.backbone),
            preset=preset,
            ablation=ablation,
            file=run.config,
            running=out if goes_on else None,
        )
        result = pretrain_model(
            opened, out, settings, resume=resume, finish=finish, overwrite=run.overwrite, progress=meter.show_training
        )
    screen.answer_json(asdict(result))
    screen.summarise(*describe_training(result))
    if not result.config["training"]["keep_values"]:
        screen.summarise(f"{out} holds no values of your tables; the corpus that it was learned from still does.")
    command = f"navi match --model {quote(out)} {find_tables(opened)}"
    screen.suggest("find columns that mean the same in your tables", command)


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


def make_pretrain_config(
    flags: dict[str, Any],
    vocabulary: str,
    *,
    preset: str | None = None,
    ablation: str | None = None,
    file: Path | None = None,
    running: Path | None = None,
) -> PretrainConfig:
    """Return the settings of `navi pretrain`: a preset, over it the file, over it those flags that were given.

    What a corpus of another `vocabulary` than the base model's was prepared for, it is learned with. Epochs or steps
    take the place of minutes. A run that is to go on (`running` is its directory) keeps the settings it was started
    with, where no preset, ablation or file is given.
    """
    from navi.training import PretrainConfig, make_preset
    from navi.training.export import recall_config
    from navi.training.processes import choose_device
    from navi.training.trainer import choose_preset

    config = recall_config(running) if running and not (preset or ablation or file) else None
    recorded = config is not None
    if config is None:
        config = make_preset(preset or choose_preset(choose_device()), ablation)
        config = config if vocabulary in (BASE_MODEL, MINILM) else replace(config, backbone=vocabulary)
    in_file = {name: content for name, content in read_settings(file).items() if name != "prepare"}
    for given in (in_file, drop_none(flags)):
        config, length = PretrainConfig.from_dict(given, config), given.get("training", {})
        if not recorded and "minutes" not in length and {"epochs", "max_steps"} & length.keys():
            config = replace(config, training=replace(config.training, minutes=None))
    return config


def drop_none(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings without those that are None, in sections too.

    >>> drop_none({"backbone": None, "training": {"epochs": 1, "seed": None}})
    {'training': {'epochs': 1}}
    """
    cleared = {name: drop_none(value) if isinstance(value, dict) else value for name, value in settings.items()}
    return {name: value for name, value in cleared.items() if value is not None}


def describe_training(result: TrainingResult) -> list[RenderableType]:
    """Return what was learned, how long it took, whether it was worth it, and what else a user should know."""
    learned = [count_things(result.corpus["train_rows"], "training row"), format_duration(result.seconds)]
    if rate := result.train.get("rows_per_second"):
        learned.append(f"{format_count(rate)} rows/s lately")
    lines: list[RenderableType] = [
        make_heading(f"Model {result.path}: {count_things(result.num_steps, 'step')} on {result.device}"),
        f"{', '.join(learned)}.",
        *(compare_validation(result.validation) if result.validation else []),
    ]
    if result.skipped:
        lines.append(f"{count_things(result.skipped, 'step')} skipped: the loss was not finite.")
    return lines + [f"Note: {note}" for note in result.notes]


def compare_validation(lines: list[dict[str, Any]]) -> list[RenderableType]:
    """Return the validation before and after, beside the most frequent guess, and whether training was worth it."""
    from navi.training.export import MEASURES

    first, last = lines[0], lines[-1]
    rows, changes, same, behind = [], [], [], []
    for name, (label, guess, use) in MEASURES.items():
        if (before := first.get(name)) is None or (after := last.get(name)) is None:
            continue
        show, beat = format_loss if name == "masked_loss" else format_share, first.get(guess)
        rows.append((label, show(before), show(after), "" if beat is None else show(beat)))
        changes += [f"{use} {show(before)} → {show(after)}"] if use else []
        same += [use] if use and after <= before else []
        behind += [label] if beat is not None and after <= beat else []
    columns = ("validation rows", "before", "after", "most frequent guess")
    shown: list[RenderableType] = [make_table(columns, rows, right=columns[1:])]
    if len(lines) > 1:
        verdict = f"No better: {', '.join(same)}; for that, what it started from serves as well" if same else ""
        shown.append(
            f"Worth it? On rows and columns that it did not learn: {', '.join(changes)}. "
            f"{verdict or 'Better at all of it'}."
        )
    if behind:
        shown.append(f"No better than the most frequent guess yet: {'; '.join(behind)}. Train longer: --minutes.")
    return shown
