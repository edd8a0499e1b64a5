"""The steps of the demo, in order: each says what it does, does it with the library, and shows what came out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from navi.cli.demo.entities import find_same_films
from navi.cli.demo.gaps import fill_gaps
from navi.cli.demo.learning import learn
from navi.cli.demo.matching import match_columns
from navi.cli.demo.naming import name_columns
from navi.cli.demo.tables import make_tables, prepare_corpus, show_tables
from navi.cli.demo.tour import Tour
from navi.cli.demo.writing import draw_map, write_page


@dataclass(frozen=True)
class Step:
    """One step of the demo."""

    title: str
    """What it does, as a heading."""
    take: Callable[[Tour], None]
    """Does it, shows it, and adds its scores to the tour's."""


STEPS = (
    Step("Film catalogues, no two with the same schema", make_tables),
    Step("One corpus of segments", prepare_corpus),
    Step("What is in it", show_tables),
    Step("Learning, without any label", learn),
    Step("Columns that mean the same", match_columns),
    Step("Unnamed columns, named", name_columns),
    Step("Empty cells, filled", fill_gaps),
    Step("The same film in two catalogues", find_same_films),
    Step("The map of segments", draw_map),
    Step("A page of all this", write_page),
)
"""All steps; one more is one more entry here."""
