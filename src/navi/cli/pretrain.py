"""`navi pretrain`: from a corpus to a model."""

from __future__ import annotations

from collections.abc import Mapping
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
from navi.cli.progress import Meter, follow_preparing, follow_training, show_progress
from navi.settings import read_settings

if TYPE_CHECKING:
    from navi.corpus import Corpus
    from navi.training import PretrainConfig, TrainingResult

EXAMPLES = {
    "pretrain": (
        "navi pretrain corpus -o model",
        "navi pretrain films/ -o model --minutes 10",
        "navi pretrain corpus -o model --resume",
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
}
"""Measures of validation, what they are called, and the guess that each is to beat."""


def pretrain(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="A folder of tables, or a corpus that `navi prepare` wrote.", show_default=False
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="MODEL", help="Directory to write.")],
    preset: Annotated[
        Literal["default", "paper"] | None, typer.Option(help="Settings by name.", show_default="default")
    ] = None,
    ablation: Annotated[
        Literal["without_attributes", "without_segment_masking", "without_alignment", "random_routing"] | None,
        typer.Option(help="Take one thing away."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Times each row is seen.", show_default="2")] = None,
    minutes: Annotated[float | None, typer.Option(metavar="N", help="Learn for about N minutes.")] = None,
    max_steps: Annotated[int | None, typer.Option(metavar="N", help="Stop after N steps.")] = None,
    rows_per_batch: Annotated[int | None, typer.Option(metavar="N", help="Rows a step.", show_default="256")] = None,
    seed: Annotated[int | None, typer.Option(help="Decides everything random.", show_default="0")] = None,
    backbone: Start = None,
    precision: Annotated[
        Literal["auto", "float32", "bfloat16"] | None, typer.Option(help="Arithmetic.", show_default="auto")
    ] = None,
    compile_: Annotated[bool | None, typer.Option("--compile/--no-compile", help="Use torch.compile.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on exactly where the run stopped.")] = False,
    overwrite: Overwrite = False,
    config: ConfigFile = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Learn an encoder from tables or a corpus; Ctrl-C saves a checkpoint, --resume goes on from it."""
    from navi.training import pretrain as pretrain_model

    screen = Screen(quiet=quiet, as_json=as_json)
    with show_progress(screen) as meter:
        opened = open_or_prepare(source, out, meter, resume=resume, overwrite=overwrite)
        meter.wait("Loading, and measuring the untrained model")
        settings = make_pretrain_config(
            choose_start(str(opened.config.backbone), preset),
            preset=preset,
            ablation=ablation,
            file=config,
            running=out if resume else None,
            flags={
                "training.epochs": epochs,
                "training.max_steps": max_steps,
                "training.minutes": minutes,
                "training.seed": seed,
                "training.precision": precision,
                "training.compile": compile_,
                "sampler.rows_per_batch": rows_per_batch,
                "backbone": backbone,
            },
        )
        result = pretrain_model(
            opened, out, settings, resume=resume, overwrite=overwrite, progress=follow_training(meter)
        )
    screen.answer_json(asdict(result))
    screen.summarise(*summarise_training(result))
    screen.suggest(f"navi match --model {quote(out)} PATHS…", "find columns that mean the same in your tables")


def open_or_prepare(source: Path, out: Path, meter: Meter, *, resume: bool, overwrite: bool) -> Corpus:
    """Return the corpus at a place; of a folder of tables, one made beside the model; none is replaced unasked."""
    from navi.corpus import Corpus, prepare
    from navi.corpus.corpus import MANIFEST_FILE

    is_model = (source / "config.json").is_file()
    if not source.is_dir() or is_model or (source / MANIFEST_FILE).is_file():
        return Corpus.open(source, verify=True)
    made = out.with_name(f"{out.name}-corpus")
    if resume and (made / MANIFEST_FILE).is_file():
        return Corpus.open(made, verify=True)
    return prepare([source], made, progress=follow_preparing(meter), overwrite=overwrite)


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

    Training starts from `backbone` unless something else says so. A run that is to go on (`running` is its directory)
    keeps the settings it was started with, where no preset, ablation or file is given.
    """
    from navi.training import PretrainConfig, make_preset
    from navi.training.checkpoint import recall_config

    recorded = recall_config(running) if running and not (preset or ablation or file) else None
    base = recorded or replace(make_preset(preset or "default", ablation), backbone=backbone)
    config = PretrainConfig.from_dict({k: v for k, v in read_settings(file).items() if k != "prepare"}, base)
    for full_name, value in flags.items():
        *section, name = full_name.split(".")
        if value is not None:
            config = PretrainConfig.from_dict({section[0]: {name: value}} if section else {name: value}, config)
    return config


def summarise_training(result: TrainingResult) -> list[Any]:
    """Return what was learned, how long it took, and what else a user should know."""
    rate = result.train.get("rows_per_second")
    lines: list[Any] = [
        make_heading(f"Model {result.path}: {count_things(result.num_steps, 'step')} on {result.device}"),
        f"{count_things(result.corpus['train_rows'], 'training row')}, {format_duration(result.seconds)}"
        + (f", {format_count(float(rate))} rows/s lately." if rate else "."),
        *(compare_validation(result.validation) if result.validation else []),
    ]
    if result.skipped:
        lines.append(f"{count_things(result.skipped, 'step')} skipped: the loss was not finite.")
    return lines + [f"Note: {note}" for note in result.notes]


def compare_validation(lines: list[dict[str, Any]]) -> list[Any]:
    """Return the validation before and after, beside the most frequent guess, and what to do where that is as good."""
    first, last = lines[0], lines[-1]
    rows, behind = [], []
    for name, (label, guess) in MEASURES.items():
        show = format_loss if guess is None else format_share
        after, beat = last.get(name), first.get(guess) if guess else None
        rows.append((label, show(first.get(name)), show(after), format_share(beat) if guess else ""))
        if after is not None and beat is not None and after <= beat:
            behind.append(label)
    columns = ("validation rows", "before", "after", "most frequent guess")
    table = make_table(columns, rows, right=columns[1:])
    if not behind:
        return [table]
    advice = f"No better than the most frequent guess yet: {'; '.join(behind)}. Train longer: --max-steps, --epochs."
    return [table, advice]
