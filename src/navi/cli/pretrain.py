"""`navi pretrain`: from a corpus to a model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from navi.backbones import BASE_MODEL, MINILM
from navi.cli.console import (
    Screen,
    count_things,
    format_count,
    format_duration,
    format_loss,
    format_share,
    make_heading,
    make_table,
    quote,
)
from navi.cli.options import ConfigFile, Json, Overwrite, Quiet
from navi.cli.prepare import make_prepare_config
from navi.cli.progress import Meter, follow_preparing, follow_training, show_progress
from navi.errors import TrainingInterrupted
from navi.settings import read_settings

if TYPE_CHECKING:
    from navi.corpus import Corpus, PrepareConfig
    from navi.training import PretrainConfig, TrainingResult

EXAMPLES = {
    "pretrain": (
        "navi pretrain corpus -o model",
        "navi pretrain films/ -o model --minutes 10",
        "navi pretrain films/ -o model --resume",
        "navi pretrain films/ -o model --finish",
        "navi pretrain corpus -o paper --preset paper --ablation without_alignment",
    )
}
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
    with stop_before_training(), show_progress(screen) as meter:
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
            opened, out, settings, resume=resume, finish=finish, overwrite=overwrite, progress=follow_training(meter)
        )
    screen.answer_json(asdict(result))
    screen.summarise(*summarise_training(result))
    if not result.config["training"]["keep_values"]:
        screen.summarise(f"{out} holds no values of your tables; the corpus that it was learned from still does.")
    command = f"navi match --model {quote(out)} {find_tables(opened)}"
    screen.suggest(command, "find columns that mean the same in your tables")


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
        prepare([source], made, config, follow_preparing(meter), overwrite=overwrite)
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


def summarise_training(result: TrainingResult) -> list[Any]:
    """Return what was learned, how long it took, whether it was worth it, and what else a user should know."""
    rate, num_rows = result.train.get("rows_per_second"), result.corpus.get("train_rows")
    learned = [] if num_rows is None else [count_things(num_rows, "training row")]
    learned += [format_duration(result.seconds)] if result.seconds else []
    learned += [f"{format_count(float(rate))} rows/s lately"] if rate else []
    lines: list[Any] = [
        make_heading(f"Model {result.path}: {count_things(result.num_steps, 'step')} on {result.device}"),
        *([f"{', '.join(learned)}."] if learned else []),
        *(compare_validation(result.validation) if result.validation else []),
    ]
    if result.skipped:
        lines.append(f"{count_things(result.skipped, 'step')} skipped: the loss was not finite.")
    return lines + [f"Note: {note}" for note in result.notes]


def compare_validation(lines: list[dict[str, Any]]) -> list[Any]:
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
    shown: list[Any] = [make_table(columns, rows, right=columns[1:])]
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
