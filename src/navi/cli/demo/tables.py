"""The demo's first steps: tables made, prepared and looked at."""

from __future__ import annotations

import shutil
from time import monotonic

from navi.cli.demo.tour import TRUTH_FILE, Tour
from navi.cli.inspect import describe_table, list_tables
from navi.cli.prepare import summarise_corpus
from navi.cli.progress import follow_preparing, show_progress
from navi.cli.render import count_things


def make_tables(tour: Tour) -> None:
    """Write the simulated catalogues, and their truth beside them."""
    from navi.simulator import write_catalogues

    shutil.rmtree(tour.tables, ignore_errors=True)
    truth = write_catalogues(tour.tables, num_rows=tour.num_rows, num_catalogues=tour.num_catalogues, seed=tour.seed)
    truth.save(tour.folder / TRUTH_FILE)
    tour.truth = truth
    headers = {header for _, header in truth.concepts}
    tour.screen.summarise(
        f"{count_things(len(truth.films), 'table')} with {count_things(sum(map(len, truth.films.values())), 'row')} in "
        f"{tour.tables}: {count_things(len(headers), 'header')} for {len(set(truth.concepts.values()))} meanings, "
        f"{count_things(len(truth.gaps), 'empty cell')}."
    )


def prepare_corpus(tour: Tour) -> None:
    """Make a corpus of the tables."""
    from navi.segments import PrepareConfig, prepare

    config, started = PrepareConfig(seed=tour.seed, backbone=tour.backbone), monotonic()
    with show_progress(tour.screen) as meter:
        tour.corpus = prepare([tour.tables], tour.corpus_folder, config, follow_preparing(meter), overwrite=True)
    tour.screen.summarise(*summarise_corpus(tour.corpus, monotonic() - started))


def show_tables(tour: Tour) -> None:
    """Show the tables, and the columns of the first."""
    from navi.segments import inspect_corpus

    found = inspect_corpus(tour.corpus)
    tour.screen.summarise(list_tables(found), *describe_table(found["tables"][0], tour.screen.results.width))
