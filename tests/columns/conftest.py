"""Fixtures of the profiles stage: tables encoded for the tiny backbone, and a runner with it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from navi.batches import SpecialTokens
    from navi.corpus import Encoded
    from navi.model.runner import Runner

# A machine busy with something else must not fail a law.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
Rows = Sequence[Mapping[str, str]]
GENRES = ("drama", "comedy", "horror", "action")
NAMES = ("ann", "bob", "cleo", "dan", "eve", "fay", "gus", "hal")


def draw_films(seed: int, num_rows: int, headers: Mapping[str, str]) -> list[dict[str, str]]:
    """Return rows about films under the given headers (of title, genre, year, votes, actor), seeded."""
    rng = random.Random(seed)
    rows = []
    for _ in range(num_rows):
        row = {
            "title": f"the {rng.choice(NAMES)} {rng.randrange(300)} night",
            "genre": ", ".join(sorted(rng.sample(GENRES, 2))),
            "year": str(rng.randrange(1950, 2020)),
            "votes": str(rng.randrange(10_000, 900_000)),
            "actor": f"{rng.choice(NAMES)} {rng.choice(NAMES)}",
        }
        rows.append({headers[name]: value for name, value in row.items() if name in headers})
    return rows


SAME = {name: name for name in ("title", "genre", "year", "votes", "actor")}
OTHER = {"title": "film", "genre": "kind", "year": "date", "votes": "rating", "actor": "star"}


@pytest.fixture(scope="session")
def draw() -> Callable[[int, int, Mapping[str, str]], list[dict[str, str]]]:
    """A maker of rows about films; see `draw_films`."""
    return draw_films


@pytest.fixture(scope="session")
def encode(tiny_backbone: Path) -> Callable[[Mapping[str, Rows]], Encoded]:
    """A maker of encoded tables from rows."""
    from navi.backbones import load_tokenizer
    from navi.corpus import PrepareConfig, encode_tables
    from navi.tables import read_frame

    tokenizer = load_tokenizer(tiny_backbone)
    config = PrepareConfig(backbone=str(tiny_backbone))

    def make(tables: Mapping[str, Rows]) -> Encoded:
        return encode_tables({name: read_frame(list(rows)) for name, rows in tables.items()}, tokenizer, config)

    return make


@pytest.fixture(scope="session")
def films(encode: Callable[..., Encoded]) -> Encoded:
    """Three tables about films: two with the same headers, one with others."""
    return encode(
        {
            "amber": draw_films(1, 60, SAME),
            "birch": draw_films(2, 50, SAME),
            "cedar": draw_films(3, 40, OTHER),
        }
    )


@pytest.fixture(scope="session")
def runner(tiny_backbone: Path, special: SpecialTokens) -> Runner:
    """The tiny backbone, untrained, on the CPU."""
    from navi.model import load_backbone
    from navi.model.runner import Runner

    return Runner(load_backbone(tiny_backbone), special, device="cpu")
