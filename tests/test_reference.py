"""Outputs of a small trained model, kept with its weights: what every verb answered when they were written.

The model is kept because training on another machine may end in other last bits. To train it again and write the
outputs again, after a change that is meant to change them:

    NAVI_WRITE_REFERENCE=1 pytest tests/test_reference.py
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from navi.columns import ColumnProfiles
from navi.simulator import World
from navi.verbs import Navi

FOLDER = Path(__file__).parent / "reference"
KEPT = ("config.json", "model.safetensors", "tokenizer.json", "values.arrow", "columns.arrow")
NUM_TABLES = 2
"""Training tables whose columns the model keeps: enough to name from, and a small file."""
TOLERANCE = 1e-4
FILMS = [
    {"title": "dark city", "year": "1999", "genre": "horror", "country": "usa", "director": "old king"},
    {"title": "the night", "year": "2001", "genre": "drama", "country": "uk", "director": "new star"},
    {"title": "red house", "year": "2010", "genre": "drama", "country": "uk", "director": "new star"},
    {"title": "love and war", "year": "1999", "genre": "comedy", "country": "usa", "director": "old king"},
    {"title": "black day", "year": "2010", "genre": "drama", "country": "uk", "director": "new star"},
    {"title": "a small city", "year": "1999", "country": "usa", "director": "old king"},
    {"title": "white night", "year": "2001", "genre": "drama", "country": "uk"},
]
SHOP = [
    {"film name": "dark city", "released": "1999", "kind": "horror", "price": "4.50"},
    {"film name": "red house", "released": "2010", "kind": "drama", "price": "12.00"},
    {"film name": "green star", "released": "2001", "kind": "comedy", "price": "7.25"},
]


def list_embeddings(navi: Navi) -> Any:
    parts = {
        "texts": navi.embed_rows(FILMS[:2]),
        "rows": navi.runner.embed(navi.encode(FILMS[:2]).arrays)["rows"],
        "values": navi.embed_rows(FILMS[:2], pooling="values"),
        "segments": navi.embed_segments(SHOP[:1]),
        "headers": navi.embed_headers(SHOP[:1]),
        "attributes": navi.embed_attributes(SHOP[:1]),
    }
    return {name: array.tolist() for name, array in parts.items()}


def list_names(navi: Navi) -> Any:
    hidden = [{"col_1" if header == "genre" else header: value for header, value in row.items()} for row in FILMS]
    return [names.as_dict() for names in navi.name_columns(hidden, top=3)]


def list_fills(navi: Navi) -> Any:
    return navi.impute(FILMS, confidence=0.0).cells.to_pylist()


def list_matches(navi: Navi) -> Any:
    found = navi.match({"films": FILMS, "shop": SHOP}).as_dict()
    pairs = [{name: part for name, part in pair.items() if name != "reasons"} for pair in found["pairs"]]
    return {"clusters": found["clusters"], "pairs": pairs}


def list_neighbours(navi: Navi) -> Any:
    found = navi.search({"films": FILMS, "shop": SHOP}, {"title": "dark city", "year": "1999"}, k=3)
    return [vars(each) for each in found]


def list_links(navi: Navi) -> Any:
    found = navi.link({"films": FILMS, "shop": SHOP}, threshold=0.01, one_to_one=True)
    return found.to_arrow().to_pylist()


VERBS: dict[str, Callable[[Navi], Any]] = {
    "embed": list_embeddings,
    "name": list_names,
    "impute": list_fills,
    "match": list_matches,
    "search": list_neighbours,
    "link": list_links,
}


@pytest.fixture(scope="module")
def kept(request: pytest.FixtureRequest) -> Navi:
    """The model that is kept, written again if that is asked for."""
    if os.environ.get("NAVI_WRITE_REFERENCE"):
        write_reference(request.getfixturevalue("model_dir"), request.getfixturevalue("world"))
    return Navi.from_pretrained(FOLDER / "model", device="cpu")


def write_reference(model_dir: Path, world: World) -> None:
    (FOLDER / "model").mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        shutil.copyfile(model_dir / name, FOLDER / "model" / name)
    known = ColumnProfiles.load(model_dir)
    known.take(np.flatnonzero(np.isin(known.tables, sorted(set(known.tables))[:NUM_TABLES]))).save(FOLDER / "model")
    rows = next(each.rows for each in world.catalogues if each.name == sorted(set(known.tables))[0])
    texts = [{header: str(cell) for header, cell in row.items() if isinstance(cell, str | int)} for row in rows[:40]]
    (FOLDER / "rows.json").write_text(json.dumps(texts, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    navi = Navi.from_pretrained(FOLDER / "model", device="cpu")
    for verb, answer in VERBS.items():
        text = json.dumps(shorten(plain(answer(navi))), indent=1)
        (FOLDER / f"{verb}.json").write_text(text + "\n", encoding="utf-8")


def plain(answer: Any) -> Any:
    """Return an answer as JSON would give it back."""
    return json.loads(json.dumps(answer))


def shorten(answer: Any) -> Any:
    """Return an answer with numbers of six decimals."""
    if isinstance(answer, dict):
        return {key: shorten(part) for key, part in answer.items()}
    if isinstance(answer, list):
        return [shorten(part) for part in answer]
    return round(answer, 6) if isinstance(answer, float) else answer


def flatten(answer: Any, place: str = "") -> dict[str, Any]:
    """Return what stands at each place of an answer."""
    if not isinstance(answer, dict | list):
        return {place: answer}
    parts = answer.items() if isinstance(answer, dict) else enumerate(answer)
    return {f"{place}/": len(answer)} | {
        at: leaf for key, part in parts for at, leaf in flatten(part, f"{place}/{key}").items()
    }


@pytest.mark.parametrize("verb", list(VERBS))
def test_a_verb_answers_as_it_did(kept, verb):
    expected = flatten(json.loads((FOLDER / f"{verb}.json").read_text(encoding="utf-8")))
    assert flatten(plain(VERBS[verb](kept))) == pytest.approx(expected, abs=TOLERANCE, nan_ok=True)
