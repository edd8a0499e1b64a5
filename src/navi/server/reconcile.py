"""OpenRefine's Reconciliation API 0.2 over a table: which of its rows a text, and some cells beside it, may mean."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pyarrow.compute as pc
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from navi.errors import TableError
from navi.report.cards import show_cards
from navi.server.application import is_loopback, read_bytes
from navi.server.bodies import JSON, write_json
from navi.tables import Table

PATH = "/reconcile"
MAX_BODY, MAX_RESULTS, USUAL_RESULTS = 4 << 20, 100, 5
CANDIDATES = 50
"""Rows with a name like the query's whose other cells are compared."""
PROPERTY_WEIGHT = 0.5
"""What a cell beside the name counts, the name being 1."""
USUAL_NAMES, PROSE = ("name", "title", "label"), 60
"""What headers of names often say, and the characters from which a text is no name."""
SURE, LEAD = 90.0, 5.0
"""A row is taken for what was meant from this score on, and with this lead over the next."""
FRAMED = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors http://127.0.0.1:* http://localhost:*"
"""A preview is shown in a frame of OpenRefine, which runs on this machine."""


class Reconciler:
    """A table to reconcile with: its rows are entities, named by one of its columns."""

    def __init__(self, table: Table, name: str | None = None) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.table, self.name = table, name or choose_name(table)
        if self.name not in table.headers:
            raise TableError(f"{table.name} has no column '{self.name}'. It has {', '.join(table.headers)}.")
        self._cells: dict[str, list[str | None]] = table.text.to_pydict()
        self.rows = [row for row, text in enumerate(self._cells[self.name]) if text]
        if not self.rows:
            raise TableError(f"The column '{self.name}' of {table.name} names no row.")
        self.names = [text for text in self._cells[self.name] if text]
        self.place = {str(number): k for k, number in enumerate(table.row_number[self.rows].tolist())}
        self.ids = list(self.place)
        self._vectors = TfidfVectorizer(
            analyzer="char_wb", ngram_range=(2, 3), strip_accents="unicode", sublinear_tf=True, dtype=np.float32
        )
        self._names = self._vectors.fit_transform(self.names).T.tocsr()

    def find(self, queries: Sequence[Mapping[str, Any]]) -> list[list[dict[str, Any]]]:
        """Return the rows that each query may mean, the likeliest first."""
        texts = [str(query.get("query") or "") for query in queries]
        similarity = (self._vectors.transform(texts) @ self._names).tocsr()
        found = []
        for k, query in enumerate(queries):
            line = slice(*similarity.indptr[k : k + 2])
            places, scores = similarity.indices[line], similarity.data[line]
            best = np.argsort(-scores, kind="stable")[:CANDIDATES]
            given = query.get("properties")
            given = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
            beside = [(str(each.get("pid")), each.get("v")) for each in given]
            ranked = sorted(
                ((self._weigh(texts[k], float(scores[at]), int(places[at]), beside), int(places[at])) for at in best),
                key=lambda each: (-each[0], each[1]),
            )
            limit = query.get("limit")
            limit = min(limit, MAX_RESULTS) if isinstance(limit, int) and limit > 0 else USUAL_RESULTS
            sure = bool(ranked) and ranked[0][0] >= SURE and (len(ranked) < 2 or ranked[0][0] - ranked[1][0] >= LEAD)
            found.append(
                [
                    self.describe(place) | {"score": round(score, 2), "match": sure and number == 0}
                    for number, (score, place) in enumerate(ranked[:limit])
                ]
            )
        return found

    def _weigh(self, text: str, similarity: float, place: int, beside: Sequence[tuple[str, Any]]) -> float:
        """Return the score of a row; parts of words do not see their order, so that only equal names have it all."""
        is_equal = text.casefold().strip() == self.names[place].casefold().strip()
        total, weight = (1.0 if is_equal else 0.98 * similarity), 1.0
        for header, wanted in beside:
            if header in self._cells and wanted not in (None, "", []):
                cell = self._cells[header][self.rows[place]] or ""
                total += PROPERTY_WEIGHT * max(
                    compare_texts(str(each.get("name") or each.get("id") if isinstance(each, dict) else each), cell)
                    for each in (wanted if isinstance(wanted, list) else [wanted])
                )
                weight += PROPERTY_WEIGHT
        return min(100.0, 100 * total / weight)

    def describe(self, place: int) -> dict[str, Any]:
        """Return a row as an entity."""
        cells = self.read(place)
        rest = [f"{header}: {cell[:40]}" for header, cell in cells.items() if header != self.name][:4]
        kind = [{"id": self.table.name, "name": self.table.name}]
        return {"id": self.ids[place], "name": self.names[place], "type": kind, "description": "; ".join(rest)}

    def read(self, place: int) -> dict[str, str]:
        """Return the cells of a row."""
        row = self.rows[place]
        return {header: cell for header, cells in self._cells.items() if (cell := cells[row])}


def choose_name(table: Table) -> str:
    """Return the column that names the rows: texts with letters, in most rows, most of them different."""

    def rate(header: str) -> float:
        cells = table.text[header].drop_null()
        lettered = pc.sum(pc.match_substring_regex(cells, r"\p{L}{2}")).as_py() or 0
        length = pc.mean(pc.utf8_length(cells)).as_py() or 0
        usual = 2 if any(word in header.lower() for word in USUAL_NAMES) else 1
        return float(usual * pc.count_distinct(cells).as_py() * lettered * min(length, PROSE) * (length <= PROSE))

    return max(table.headers, key=rate)


def compare_texts(first: str, second: str) -> float:
    """Return how alike two texts are: the share of pairs of letters that both have.

    >>> compare_texts("1999", "1999"), compare_texts("Alien", "Brazil")
    (1.0, 0.0)
    """
    left, right = (
        {text[k : k + 2] for k in range(len(text) - 1)} or {text}
        for text in (first.casefold().strip(), second.casefold().strip())
    )
    return 2 * len(left & right) / (len(left) + len(right))


def list_routes(reconciler: Reconciler) -> list[Route]:
    """Return the routes of a reconciliation service."""
    table = reconciler.table

    async def reconcile(request: Request) -> Response:
        asked = {
            **request.query_params,
            **dict(parse_qsl((await read_bytes(request, MAX_BODY)).decode("utf-8", "replace"))),
        }
        if "queries" in asked:
            queries = _parse(asked["queries"])
            if not isinstance(queries, dict) or not all(isinstance(each, dict) for each in queries.values()):
                raise HTTPException(400, "`queries` is an object of queries.")
            found = await asyncio.to_thread(reconciler.find, list(queries.values()))
            return _answer(request, {key: {"result": each} for key, each in zip(queries, found, strict=True)})
        base = f"{request.url.scheme}://{request.url.netloc}{PATH}"
        suggest = {
            kind: {"service_url": base, "service_path": f"/suggest/{kind}"} for kind in ("entity", "property", "type")
        }
        manifest = {
            "versions": ["0.2"],
            "name": f"NAVI: {table.name}",
            "identifierSpace": f"{base}/rows/",
            "schemaSpace": f"{base}/columns/",
            "defaultTypes": [{"id": table.name, "name": table.name}],
            "view": {"url": f"{base}/preview?id={{{{id}}}}"},
            "preview": {"url": f"{base}/preview?id={{{{id}}}}", "width": 430, "height": 300},
            "suggest": suggest,
        }
        return _answer(request, manifest)

    async def suggest(request: Request) -> Response:
        kind, prefix = request.path_params["kind"], request.query_params.get("prefix", "")
        if kind == "entity":
            found = (await asyncio.to_thread(reconciler.find, [{"query": prefix, "limit": 10}]))[0]
            keys = ("id", "name", "description")
            return _answer(request, {"result": [{key: each[key] for key in keys} for each in found]})
        known = table.headers if kind == "property" else (table.name,)
        fitting = [each for each in known if prefix.casefold() in each.casefold()]
        return _answer(request, {"result": [{"id": each, "name": each} for each in fitting]})

    async def preview(request: Request) -> Response:
        place = reconciler.place.get(request.query_params.get("id", ""))
        if place is None:
            raise HTTPException(404, "There is no such row.")
        page = show_cards("row", name=reconciler.names[place], cells=reconciler.read(place))
        return HTMLResponse(f"<!doctype html>{page}", headers={"content-security-policy": FRAMED})

    return [
        Route(PATH, reconcile, methods=["GET", "POST"]),
        Route(f"{PATH}/suggest/{{kind}}", suggest),
        Route(f"{PATH}/preview", preview),
    ]


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"A query is not JSON: {error}.") from error


def _answer(request: Request, content: Any) -> Response:
    """Return JSON; the pages of OpenRefine, which come from this machine, may read it."""
    origin = request.headers.get("origin", "")
    is_here = is_loopback(urlsplit(origin).hostname or "")
    allowed = {"access-control-allow-origin": origin, "vary": "origin"} if is_here else {}
    return Response(write_json(content), headers=allowed, media_type=JSON)
