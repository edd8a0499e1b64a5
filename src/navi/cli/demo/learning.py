"""The demo's pretraining: as many steps as fit the time, and what they brought."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

from navi.cli.demo.tour import Score, Tour
from navi.cli.pretrain import MEASURES, summarise_training
from navi.cli.progress import follow_training, show_progress
from navi.cli.render import count_things, format_duration

if TYPE_CHECKING:
    from navi.training import PretrainConfig, StepReport

ROWS_PER_BATCH, TABLES_PER_BATCH = 16, 4
"""Rows and tables of a step: many small steps learn more in a few minutes than few large ones."""
VALUE_SHARE = 0.45
"""Share of a row's values that are masked: values take longest to learn, and there is little time."""
TRAINING = {
    "epochs": 100,
    "learning_rate": 3e-4,
    "new_learning_rate": 1e-3,
    "validate_rows": 200,
    "log_every": 5,
    "checkpoint_minutes": None,
}
"""Settings that learn fast from few rows."""
ROWS_PER_COLUMN = 30
"""Rows that tell what a column looks like."""
FEWEST_STEPS, MOST_STEPS = 180, 300
"""Steps of pretraining, however slow or fast the machine is."""
TRIAL_STEPS = 3
"""Steps taken to see how fast the machine is, after one that warms it up."""


def learn(tour: Tour) -> None:
    """Pretrain for about the minutes given, and score what validation says."""
    from navi.training import pretrain

    with show_progress(tour.screen) as meter:
        meter.wait("Seeing how fast this machine is")
        config = plan_steps(tour, make_config(tour))
        meter.wait("Measuring the untrained model")
        result = pretrain(tour.corpus, tour.model_folder, config, overwrite=True, progress=follow_training(meter))
        meter.wait("Noting what each column looks like")
        note_columns(tour)
    tour.screen.summarise(*summarise_training(result))
    first, last = result.validation[0], result.validation[-1]
    for name, (label, guess) in MEASURES.items():
        if guess is not None:
            tour.scores.append(
                Score(task=label, navi=last[name], guess=first[guess], guess_name=guess.replace("_", " "))
            )


def note_columns(tour: Tour) -> None:
    """Write profiles of the training tables' columns into the model directory, where pretraining has not done so."""
    import numpy as np

    from navi.columns import COLUMNS_FILE, profile_columns

    if (tour.model_folder / COLUMNS_FILE).is_file():
        return
    corpus, unseen = tour.corpus, set(tour.unseen_tables)
    seen = np.array([name not in unseen for name in corpus.tables])
    rows = corpus.rows_of("train")
    profiles = profile_columns(tour.model.runner, corpus, rows, rows_per_column=ROWS_PER_COLUMN)
    profiles.take(np.flatnonzero(seen[corpus.arrays.column_table])).save(tour.model_folder)


def make_config(tour: Tour) -> PretrainConfig:
    """Return settings that learn fast from few rows."""
    from navi.training import PretrainConfig

    sampler = {"rows_per_batch": ROWS_PER_BATCH, "tables_per_batch": TABLES_PER_BATCH}
    training = TRAINING | {"max_steps": MOST_STEPS, "seed": tour.seed}
    masking = {"value_share": VALUE_SHARE}
    return PretrainConfig.from_dict(
        {"backbone": tour.backbone, "masking": masking, "sampler": sampler, "training": training}
    )


def plan_steps(tour: Tour, config: PretrainConfig) -> PretrainConfig:
    """Return the settings with as many steps as fit the tour's minutes, told from a short trial."""
    seconds = time_step(tour, config)
    num_steps = min(max(round(60 * tour.minutes / seconds), FEWEST_STEPS), MOST_STEPS)
    tour.screen.note(
        f"A step of {config.sampler.rows_per_batch} rows takes {format_duration(seconds)} here: "
        f"{count_things(num_steps, 'step')}, about {format_duration(seconds * num_steps)}."
    )
    return replace(config, training=replace(config.training, max_steps=num_steps))


def time_step(tour: Tour, config: PretrainConfig) -> float:
    """Return the seconds that a step takes."""
    from navi.training import pretrain

    moments: list[float] = []

    def note_time(report: StepReport) -> None:
        del report
        moments.append(monotonic())

    trial = replace(config.training, max_steps=TRIAL_STEPS + 1, validate_rows=0, curves=False)
    with tempfile.TemporaryDirectory(prefix="navi-demo-") as folder:
        pretrain(tour.corpus, folder, replace(config, training=trial), progress=note_time)
    return (moments[TRIAL_STEPS] - moments[0]) / TRIAL_STEPS
