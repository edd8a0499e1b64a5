"""Fixtures of the evaluation: a small corpus of films with gold, and encoders whose answers are known."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from navi.corpus import Corpus, PrepareConfig, prepare
from navi_paper import EvaluationConfig, EvaluationData, Gold
from navi_paper.table_encoder import IN_VARIANTS, PREDICTS_TOKENS, TableEncoder, list_cells, list_hidden_tokens

GENRES = ("drama", "comedy", "horror")
COUNTRIES = ("usa", "uk", "korean", "french")


def make_films() -> dict[str, list[dict[str, str]]]:
    """Return three tables that say the same under other headers; nothing is low but a constant column each."""
    tables: dict[str, list[dict[str, str]]] = {"alpha": [], "beta": [], "gamma": []}
    for number in range(90):
        genre, country, year = GENRES[number % 3], COUNTRIES[number % 4], str(1950 + number % 50)
        tables["alpha"].append(
            {"title": f"film {number}", "year": year, "genre": genre, "country": country, "language": "english"}
        )
        # Some names are numbers; that makes no column of numbers.
        name = "2001" if number % 9 == 0 else f"movie {number}"
        tables["beta"].append({"name": name, "date": year, "kind": f"{genre}, war", "country": country, "color": "red"})
        tables["gamma"].append({"film": f"film {number}", "date": year, "genre": genre, "size": "large"})
    return tables


MEANT = {
    "title": "alpha.title beta.name gamma.film",
    "year": "alpha.year beta.date gamma.date",
    "genre": "alpha.genre beta.kind gamma.genre",
    "country": "alpha.country beta.country",
}
CONCEPTS = {tuple(column.split(".")): concept for concept, columns in MEANT.items() for column in columns.split()}
LABELS = {
    "classes": ["drama", "comedy"],
    "aliases": {"drama": "drama", "comedy": "comedy", "horror": "thriller"},
    "tables": {
        "alpha": {"label": "genre", "separator": None, "hide": ["genre"]},
        "beta": {"label": "kind", "separator": ",", "hide": ["kind"]},
    },
}
SYNONYMS = {"language": ("tongue", "lang"), "color": ("hue",), "title": ("headline",)}


@pytest.fixture(scope="session")
def corpus(tiny_backbone: Path, write_tables, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """The films, gamma unseen."""
    folder = tmp_path_factory.mktemp("films")
    tables = write_tables(folder / "tables", make_films())
    config = PrepareConfig(
        backbone=str(tiny_backbone),
        workers=1,
        max_unknown_share=None,
        unseen_tables=("gamma",),
        validation_share=0.2,
        test_share=0.4,
    )
    return prepare([tables], folder / "corpus", config)


@pytest.fixture(scope="session")
def data(corpus: Corpus) -> EvaluationData:
    """The films with all their gold."""
    gold = Gold(concepts=CONCEPTS, labels=LABELS, synonyms=SYNONYMS)
    return EvaluationData(corpus=corpus, gold=gold, config=EvaluationConfig(rows=30, column_rows=8))


class Oracle(TableEncoder):
    """Knows what is hidden; embeds a cell as its header, so that equal headers lie together."""

    name = "oracle"
    abilities = frozenset({PREDICTS_TOKENS, IN_VARIANTS})
    WIDTH = 64

    def embed(self, arrays, rows, *, parts=("rows",), hidden=None):
        row_C, segments = list_cells(arrays, rows)
        vectors = self.draw(arrays.segment_header[segments])
        sums = np.zeros((len(rows), self.WIDTH), np.float32)
        np.add.at(sums, row_C, vectors)
        return {part: sums if part in ("rows", "means") else vectors for part in parts}

    def draw(self, numbers):
        """Return one random vector for each number, always the same."""
        table = np.random.default_rng(0).normal(size=(5000, self.WIDTH)).astype(np.float32)
        return table[np.asarray(numbers, np.int64) % 5000]

    def predict(self, arrays, rows, hidden):
        return list_hidden_tokens(arrays, rows, hidden)[0]


@pytest.fixture(scope="session")
def encoders() -> SimpleNamespace:
    """An encoder whose answers are known, `oracle`, and its class."""
    return SimpleNamespace(oracle=Oracle(), Oracle=Oracle)


@pytest.fixture(scope="session")
def navi_tables(tiny_backbone: Path, corpus: Corpus):
    """A NAVI model of random weights, half of its heads local, behind the interface."""
    import torch

    from navi.batches import SpecialTokens
    from navi.model import load_backbone
    from navi.model.runner import Runner
    from navi_paper.table_encoder import NaviTableEncoder

    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = load_backbone(tiny_backbone, local_head_share=0.5)
        torch.nn.init.normal_(model.unknown_attribute)
    special = SpecialTokens.of(corpus.tokenizer)
    # Few tokens a batch: rows of one call are spread over several, in order of length.
    return NaviTableEncoder(Runner(model, special, devices=["cpu"], tokens_per_batch=120))
