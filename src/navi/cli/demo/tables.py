"""The demo's first steps: tables made, prepared and looked at."""

from __future__ import annotations

import shutil
from time import monotonic

from navi.cli.demo.tour import TRUTH_FILE, Tour
from navi.cli.inspect import describe_table, list_tables
from navi.cli.prepare import summarise_corpus
from navi.cli.progress import follow_preparing, show_progress
from navi.cli.render import format_count

WIDTH = 0.5
"""Catalogues of half the usual columns: a row costs half as much, and a few minutes teach twice as many."""


def make_tables(tour: Tour) -> None:
    """Write the simulated catalogues, and their truth beside them."""
    from navi.simulator import SimulatorConfig, write_catalogues

    shutil.rmtree(tour.tables, ignore_errors=True)
    config = SimulatorConfig(num_rows=tour.num_rows, num_catalogues=tour.num_catalogues, width=WIDTH, seed=tour.seed)
    truth = write_catalogues(tour.tables, config)
    truth.save(tour.folder / TRUTH_FILE)
    tour.truth = truth
    tour.findings.counts = {
        "tables": len(truth.films),
        "rows": sum(map(len, truth.films.values())),
        "headers": len({header for _, header in truth.concepts}),
        "meanings": len(set(truth.concepts.values())),
        "empty cells": len(truth.gaps),
    }
    counted = ", ".join(f"{format_count(count)} {thing}" for thing, count in tour.findings.counts.items())
    tour.screen.summarise(f"In {tour.tables}: {counted}.")


def prepare_corpus(tour: Tour) -> None:
    """Make a corpus of the tables."""
    from navi.corpus import PrepareConfig, prepare

    config = PrepareConfig(seed=tour.seed, backbone=tour.backbone, unseen_tables=tour.num_unseen)
    started = monotonic()
    with show_progress(tour.screen) as meter:
        tour.corpus = prepare([tour.tables], tour.corpus_folder, config, follow_preparing(meter), overwrite=True)
    tour.screen.summarise(*summarise_corpus(tour.corpus, monotonic() - started))
    tour.screen.summarise(f"Kept out of training, to be asked about later: {', '.join(tour.unseen_tables)}.")


def show_tables(tour: Tour) -> None:
    """Show the tables, and the columns of the first."""
    from navi.corpus import inspect_corpus

    found = inspect_corpus(tour.corpus)
    tour.screen.summarise(list_tables(found), *describe_table(found["tables"][0], tour.screen.results.width))
