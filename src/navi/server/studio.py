"""The pages of `navi studio`: tables, columns and rows to decide on, gaps, and what comes out; plain HTML."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from navi import files
from navi.errors import ConfigError, NaviError
from navi.report import write_html
from navi.report.cards import make_pages
from navi.server.application import Access, Gate, answer_error, answer_failure, answer_http_error, read_bytes
from navi.server.bodies import JSON, write_json
from navi.server.decisions import ANSWERS, LABEL_FIELDS, make_key
from navi.server.facts import COLOURS, LIMITS, PointMap
from navi.server.review import Card, Review
from navi.settings import IMPUTE_CONFIDENCE
from navi.tables import write_table
from navi.verbs.impute import Fills
from navi.verbs.link import RowPair

CARDS_PER_PAGE, MEMBERS_SHOWN, MAX_FORM = 20, 8, 1 << 20
VIEWS = {f"/{title.lower()}": title for title in ("Tables", "Columns", "Rows", "Gaps", "Map", "Out")}
FILLS_SHOWN = 5
FILES = {
    "all.parquet": "the unified table",
    "all.csv": "the same as text",
    "report.html": "how it was made, to read",
    "decisions.csv": "what you decided, for --decisions",
    "mapping.json": "the unified name of each column",
    "spec.toml": "the plan, to edit, for --spec",
}
Handler = Callable[[Request], Awaitable[Response]]


_pages = make_pages("navi.server")
_pages.filters["empty_share"] = lambda fill: 1 - fill


def show(template: str, request: Request, code: int = 200, **content: Any) -> Response:
    """Return a page."""
    page = _pages.get_template(template).render(views=VIEWS, path=request.url.path, **content)
    return HTMLResponse(page, code)


class Studio:
    """The pages of one review."""

    def __init__(self, review: Review, access: Access) -> None:
        self.review, self.access, self.map = review, access, PointMap(review)
        self.message = ""

    def page(self, template: str, describe: Callable[[Request], dict[str, Any]], *, settled: bool = False) -> Handler:
        """Return a page; one that is to be settled is shown when the columns are what the decisions make them."""

        async def answer(request: Request) -> Response:
            if settled:
                await asyncio.to_thread(self.review.settle)
            content = await asyncio.to_thread(self._describe, describe, request)
            message = self.message
            if not content["again"]:  # else the page asks again, and says it again
                self.message = ""
            return show(template, request, review=self.review, message=message, **content)

        return answer

    def _describe(self, describe: Callable[[Request], dict[str, Any]], request: Request) -> dict[str, Any]:
        with self.review.lock:  # cards that are not yet what the decisions make them are asked for again
            return {"again": not self.review.is_settled, **describe(request)}

    async def let_in(self, request: Request) -> Response:
        """Take the token of the address into a cookie, so that no later address has it."""
        if not self.access.allows(request.query_params.get("token")):
            return answer_error(401, "The address is not whole: the token is missing or wrong.")
        answer = RedirectResponse("/columns", 303)
        answer.set_cookie(self.access.cookie, self.access.token or "", httponly=True, samesite="strict")
        return answer

    def describe_tables(self, request: Request) -> dict[str, Any]:
        """Return the tables, or one of them with its columns."""
        review, wanted = self.review, request.query_params.get("table", "")
        name = wanted if wanted in review.tables else next(iter(review.tables))
        table = review.tables[name]
        return {"name": name, "table": table, "facts": review.facts[name], "unreadable": review.unreadable}

    def describe_columns(self, request: Request) -> dict[str, Any]:
        """Return the cards that are asked for, the most useful first, and a question."""
        query = request.query_params
        text, table, only = query.get("name", "").lower(), query.get("table", ""), query.get("only", "")
        order = query.get("order", "useful")

        def fits(card: Card) -> bool:
            named = text in card.name.lower() or any(text in str(each.column).lower() for each in card.members)
            kinds = {"doubt": card.in_doubt, "alone": len(card.members) == 1, "open": not card.accepted}
            there = not table or any(each.column.table == table for each in card.members)
            return named and there and kinds.get(only, True)

        keys: dict[str, Callable[[Card], Any]] = {
            "name": lambda card: card.name.lower(),
            "size": lambda card: -len(card.members),
        }
        cards = sorted(filter(fits, self.review.cards), key=keys.get(order, lambda card: -card.usefulness))
        num_pages = -(-len(cards) // CARDS_PER_PAGE)
        number = read_number(query.get("page", ""), num_pages) or 1
        shown = cards[(number - 1) * CARDS_PER_PAGE : number * CARDS_PER_PAGE]
        others = {key: value for key, value in query.items() if key != "page"}
        return {
            "cards": shown,
            "num_found": len(cards),
            "page": number,
            "num_pages": num_pages,
            "page_query": urlencode(others),
            "question": self.review.ask(),
            "most": MEMBERS_SHOWN,
            "query": {"name": query.get("name", ""), "table": table, "only": only, "order": order},
        }

    def describe_out(self, request: Request) -> dict[str, Any]:
        """Return the unified table: its columns, and some rows."""
        return {"found": self.review.unified, "files": FILES}

    def describe_map(self, request: Request) -> dict[str, Any]:
        """Return the points of a map, or how far they are."""
        query = request.query_params
        of = query.get("of", "") if query.get("of") in COLOURS else "columns"
        limit = next((each for each in LIMITS if str(each) == query.get("limit")), LIMITS[0])
        colour = query.get("colour", "") if query.get("colour") in COLOURS[of] else COLOURS[of][0]
        asked = {"of": of, "limit": limit, "colour": colour}
        choices = {"colours": COLOURS[of], "limits": LIMITS, "page_query": urlencode(asked)}
        return {"found": self.map.start(of, limit), "key": ("map", of, limit), **asked, **choices}

    async def points(self, request: Request) -> Response:
        """Return the points of a map, for its page to draw."""
        asked = await asyncio.to_thread(self._describe, self.describe_map, request)
        if not isinstance(asked["found"], dict):
            raise HTTPException(404, "The points are not placed yet.")
        return Response(write_json(self.map.colour(asked["found"], asked["colour"])), media_type=JSON)

    async def settled(self, request: Request) -> Response:
        """Answer when the cards are what the decisions make them."""
        await asyncio.to_thread(self.review.settle)
        return Response(status_code=204)

    async def members(self, request: Request) -> Response:
        """Return the columns of a card that its page leaves out at first."""
        try:
            card = self.review.find_card(request.query_params.get("card", ""))
        except ConfigError as error:
            raise HTTPException(409, f"Not done: {error}.") from error
        return show("members.html", request, card=card, rest=card.members[MEMBERS_SHOWN:])

    def describe_gaps(self, request: Request) -> dict[str, Any]:
        """Return what would be filled into the empty cells of a table, by column."""
        review, query = self.review, request.query_params
        name = query.get("table", "") if query.get("table") in review.tables else next(iter(review.tables))
        confidence, chosen = read_share(query.get("confidence", "")), query.getlist("column")
        found = review.start_filling(name) if "table" in query else ""
        columns: dict[str, dict[str, Any]] = {}
        for cell in found.cells.to_pylist() if isinstance(found, Fills) else ():
            column = columns.setdefault(cell["column"], {"empty": 0, "filled": [], "unsure": [], "reasons": Counter()})
            column["empty"] += 1
            if cell["value"] is None:
                column["reasons"][cell["reason"]] += 1
            elif cell["probability"] >= confidence:
                column["filled"].append(cell)
            else:
                column["unsure"].append(cell["probability"])
        for column in columns.values():
            column["filled"].sort(key=lambda cell: -cell["probability"])
        wanted = [column for column in columns if "ticked" not in query or column in chosen]
        asked = urlencode([("table", name), ("confidence", confidence), *(("column", each) for each in wanted)])
        rest = {"confidence": confidence, "wanted": wanted, "shown": FILLS_SHOWN, "download": asked}
        return {
            "name": name, "found": found, "columns": columns, "asked": "table" in query, "key": ("fill", name), **rest,
        }  # fmt: skip

    def describe_rows(self, request: Request) -> dict[str, Any]:
        """Return the pair of rows of two tables that is worth most to label."""
        review, query = self.review, request.query_params
        names = [*review.tables]
        left, right = (query.get(side, name) for side, name in zip(("left", "right"), names, strict=False))
        asked = "left" in query and {left, right} <= set(names)
        found: tuple[RowPair, ...] | str | None = ""
        if asked:
            found = "Choose two different tables." if left == right else review.start_linking(left, right)
        is_open = review.list_open(found) if isinstance(found, tuple) else []
        pair = is_open[0] if is_open else None
        return {
            "left": left,
            "right": right,
            "asked": asked,
            "found": found,
            "key": ("link", left, right),
            "pair": pair,
            "fields": [*zip(LABEL_FIELDS, make_key(pair), strict=False)] if pair else [],
            "blind": query.get("blind") == "yes",
            "labels": review.labels.file,
            "num_labels": len(review.labels.answers),
            "num_open": len(is_open),
        }

    def act(self, do: Callable[[dict[str, str]], str], usual: str) -> Handler:
        """Return what takes a form, says what was done or why not, and goes back to where the form was."""

        async def answer(request: Request) -> Response:
            body = await read_bytes(request, MAX_FORM)
            form = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
            try:
                self.message = await asyncio.to_thread(do, form)
            except (NaviError, OSError) as error:
                self.message = f"Not done: {error}"
            return _go_back(request, usual)

        return answer

    def label(self, form: dict[str, str]) -> str:
        """Label a pair of rows, and return what was done."""
        review, act = self.review, form.get("act", "")
        with review.lock:
            if act == "back":
                key = review.labels.take_back()
                return "There is no label." if key is None else f"Taken back: {key[0]}:{key[1]} and {key[2]}:{key[3]}."
            if act == "again":
                review.tasks.forget(("link", form.get("left", ""), form.get("right", "")))
                return "Linking again with the labels."
            left_table, left_row, right_table, right_row = (form.get(name, "") for name in LABEL_FIELDS[:4])
            rows = ((review.tables.get(left_table), left_row), (review.tables.get(right_table), right_row))
            known = all(table and read_number(row, table.row_number[-1]) is not None for table, row in rows)
            if act not in ANSWERS or not known:
                raise HTTPException(400, "The form does not name two rows and an answer.")
            review.labels.give((left_table, left_row, right_table, right_row), ANSWERS[act])
            return f"{left_table}:{left_row} and {right_table}:{right_row}: {act}."

    async def why(self, request: Request) -> Response:
        """Return what speaks for and against two columns, as a part of a page."""
        first, second = (self._find(request.query_params.get(name, "")) for name in ("first", "second"))
        reasons = await asyncio.to_thread(self.review.explain, first, second)
        return show("why.html", request, reasons=reasons, second=self.review.columns[second])

    def _find(self, text: str) -> int:
        number = read_number(text, len(self.review.columns) - 1)
        if number is None:
            raise HTTPException(400, "There is no such column. Load the page again.")
        return number

    def decide(self, form: dict[str, str]) -> str:
        """Decide on columns, and return what was done."""
        review, act = self.review, form.get("act", "")
        if act == "undo":
            return "Taken back." if review.undo() else "There is nothing to take back."
        column = self._find(form["column"]) if form.get("column") else -1
        if act in ("same", "different", "skip"):
            other = self._find(form.get("other", ""))
            if act == "skip":
                review.skip(column, other)
                return "Skipped."
            if act == "same":
                review.join([column, other])
            else:
                review.separate(column, [other])
            return f"{review.columns[column]} and {review.columns[other]}: {act}."
        card = review.find_card(form.get("card", ""))
        if act == "accept":
            review.join(card.places)
            return f"Accepted: {len(card.members)} columns are one."
        if act == "rename":
            review.rename(card.places, form.get("name", ""))
            return f"Renamed to {form.get('name', '')}."
        if act in ("split", "alone", "move") and column not in card.places:
            raise HTTPException(400, "The form names no column of the card.")
        if act == "split":
            review.separate(column, card.places)
            return f"{review.columns[column]} is split off."
        if act == "alone":
            review.isolate(column)
            return f"{review.columns[column]} is not unified."
        target = next((each for each in review.cards if each.name == form.get("target")), None)
        if act not in ("move", "merge"):
            raise HTTPException(400, "The form does not say what to do.")
        if target is None:
            return f"Not done: no column is called '{form.get('target', '')}'. Choose one of the list."
        if act == "move":
            review.move(column, card.places, target.places)
            return f"{review.columns[column]} is moved to {target.name}."
        review.join([*card.places, *target.places])
        return f"Merged with {target.name}."

    async def download(self, request: Request) -> Response:
        """Return a file as the command line would write it."""
        name = request.path_params["name"]
        if name not in (*FILES, "filled.csv"):
            raise HTTPException(404, "There is no such file.")
        await asyncio.to_thread(self.review.settle)
        try:
            content = await asyncio.to_thread(self._write, name, request)
        except NaviError as error:
            return answer_error(422, str(error))
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(content, headers=headers, media_type="application/octet-stream")

    def _write(self, name: str, request: Request) -> bytes:
        review, table = self.review, None
        if name == "filled.csv":
            table = self._fill(request)
        with review.lock, tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / name
            if name == "decisions.csv":
                return review.file.file.read_bytes() if review.file.file.exists() else b""
            if name == "mapping.json":
                files.write_json(file, review.matches.as_mapping())
            elif name == "spec.toml":
                review.unified.spec.save(file)
            elif name == "report.html":
                write_html(review.unified.to_page(), folder)
            else:
                write_table(review.unified.table if table is None else table, file)
            return file.read_bytes()

    def _fill(self, request: Request) -> Any:
        """Return a table with its empty cells filled, in the columns and from the probability asked for."""
        query, tables = request.query_params, self.review.tables
        if query.get("table") not in tables:
            raise HTTPException(404, "There is no such table.")
        columns, confidence = query.getlist("column") or None, read_share(query.get("confidence", ""))
        return self.review.navi.impute(tables[query["table"]].to_arrow(), confidence=confidence, columns=columns).filled


def _go_back(request: Request, usual: str) -> Response:
    """Return to the page that a form was on; to none that is not the studio's."""
    back = urlsplit(request.headers.get("referer", ""))
    target = back.path if back.path in VIEWS else usual
    return RedirectResponse(f"{target}?{back.query}" if back.query else target, 303)


def read_number(text: str, most: int) -> int | None:
    """Return the whole number that a form gives; None where it gives none, or one above `most`.

    >>> read_number("12", 40), read_number("9" * 10_000, 40), read_number("next", 40)
    (12, None, None)
    """
    number = int(text) if text.isdecimal() and len(text) < 20 else most + 1
    return number if number <= most else None


def read_share(text: str) -> float:
    """Return a probability that a form gives; the usual one where it gives none.

    >>> read_share("0.8"), read_share("much")
    (0.8, 0.6)
    """
    try:
        return min(1.0, max(0.0, float(text)))
    except ValueError:
        return IMPUTE_CONFIDENCE


def make_studio(review: Review, access: Access) -> Starlette:
    """Return the application of `navi studio`."""
    studio = Studio(review, access)

    async def go_home(request: Request) -> Response:
        return RedirectResponse("/columns", 303)

    return Starlette(
        routes=[
            Route("/", go_home),
            Route("/open", studio.let_in),
            Route("/tables", studio.page("tables.html", studio.describe_tables)),
            Route("/columns", studio.page("columns.html", studio.describe_columns)),
            Route("/members", studio.members),
            Route("/settled", studio.settled),
            Route("/map", studio.page("map.html", studio.describe_map)),
            Route("/map/points", studio.points),
            Route("/out", studio.page("out.html", studio.describe_out, settled=True)),
            Route("/rows", studio.page("rows.html", studio.describe_rows)),
            Route("/label", studio.act(studio.label, "/rows"), methods=["POST"]),
            Route("/gaps", studio.page("gaps.html", studio.describe_gaps)),
            Route("/why", studio.why),
            Route("/decide", studio.act(studio.decide, "/columns"), methods=["POST"]),
            Route("/files/{name}", studio.download),
            Mount("/static", StaticFiles(packages=[("navi.server", "static"), ("navi.report", "template")])),
        ],
        middleware=[Middleware(Gate, access=access, open_paths=("/open",))],
        exception_handlers={HTTPException: answer_http_error, Exception: answer_failure},
    )
