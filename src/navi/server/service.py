"""The service behind `navi serve`: the verbs over HTTP, within limits, one batch for requests that wait together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from navi.errors import ConfigError, NaviError, TableError
from navi.files import read_json
from navi.server.application import Access, Gate, answer_error, answer_failure, answer_http_error, read_bytes
from navi.server.bodies import ARROW, JSON, read_body, write_body, write_json
from navi.server.jobs import Job, JobQueue, QueueFullError
from navi.server.reconcile import Reconciler, list_routes
from navi.tables import Table, read_table
from navi.verbs import Navi, SearchIndex, parse_like
from navi.version import VERSION

OPEN_PATHS = ("/health", "/ready")
"""What anybody may ask: a load balancer has no token."""
DESCRIPTION = Path(__file__).parent / "openapi.json"
"""The service as an OpenAPI document: what a verb takes is written down, and read, there alone."""
Options = Mapping[str, Any]
Tables = dict[str, Table]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one request may take, and how many may be there at once."""

    body_bytes: int = 16 << 20
    """Bytes of a body."""
    rows: int = 10_000
    """Rows of all tables of a request."""
    columns: int = 1_000
    """Columns of all tables of a request, lists and objects in cells taken apart."""
    seconds: float = 60.0
    """Time for a request, its body and its wait included."""
    queue: int = 64
    """Requests that are read, wait or run at once; others are answered with 429."""
    batch_rows: int = 4_096
    """Rows of requests that are embedded at once."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value <= 0:
                raise ConfigError(f"{name} must be above 0, got {value}.")


def read_value(name: str, schema: Mapping[str, Any], text: str) -> Any:
    """Return what a text says of a parameter; an error where it does not fit its schema."""
    kind, limits = schema["type"], {key: limit for key, limit in schema.items() if key not in ("type", "default")}
    booleans = {"true": True, "false": False}
    readers: dict[str, Callable[[str], Any]] = {"integer": int, "number": float, "boolean": booleans.__getitem__}
    try:
        value = readers.get(kind, str)(text)
    except (ValueError, KeyError) as error:
        raise ConfigError(f"{name} must be of the type {kind}, got '{text[:60]}'.") from error
    low, high = limits.get("minimum", value), limits.get("maximum", value)
    if value not in limits.get("enum", (value,)) or not low <= value <= high:
        allowed = ", ".join(f"{name} {limit}" for name, limit in limits.items())
        raise ConfigError(f"{name} is '{text[:60]}'. Allowed: {allowed}.")
    if isinstance(value, str) and len(value) > limits.get("maxLength", len(value)):
        raise ConfigError(f"{name} has {len(value)} characters. Allowed: {limits['maxLength']}.")
    return value


def _split(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def embed_requests(navi: Navi, options: Options, requests: Sequence[Tables]) -> list[pa.Table]:
    """Return the vectors of the rows of several requests, embedded at once."""
    tables = {f"{place} {name}": table for place, each in enumerate(requests) for name, table in each.items()}
    vectors = navi.embed_rows(tables, **options)
    answers, start = [], 0
    for each in requests:
        num_rows = sum(table.num_rows for table in each.values())
        own = pa.array(vectors[start : start + num_rows].reshape(-1), pa.float32())
        start += num_rows
        answers.append(
            pa.table({
                "table": pa.array([name for name, table in each.items() for _ in range(table.num_rows)], pa.string()),
                "row": pa.array([row for table in each.values() for row in table.row_number.tolist()], pa.int64()),
                "vector": pa.FixedSizeListArray.from_arrays(own, navi.hidden_size),
            })
        )  # fmt: skip
    return answers


def _match(navi: Navi, tables: Tables, options: Options) -> pa.Table:
    if (to := options["to"]) is None:
        return navi.match(tables, threshold=options["threshold"], one_to_one=options["one_to_one"]).to_arrow()
    if to not in tables:
        raise TableError(f"There is no table '{to}' to match to. The request has {', '.join(tables)}.")
    rest = {name: table for name, table in tables.items() if name != to}
    return navi.match(rest, to=tables[to], threshold=options["threshold"], top=options["top"]).to_arrow()


def _name(navi: Navi, tables: Tables, options: Options) -> pa.Table:
    return navi.name_columns(tables, _split(options["columns"]), top=options["top"]).to_arrow()


def _impute(navi: Navi, tables: Tables, options: Options) -> pa.Table:
    (table,) = tables.values()
    return navi.impute(table, confidence=options["confidence"], columns=_split(options["columns"])).to_arrow()


def _read_like(options: Options) -> dict[str, str]:
    if not options["like"]:
        raise ConfigError("like is missing: the row to look for, as title=Alien, year=1979.")
    return parse_like(options["like"])


_MANY = 1_000
VERBS: dict[str, tuple[Callable[[Navi, Tables, Options], pa.Table], tuple[int, int]]] = {
    "embed": (lambda navi, tables, options: embed_requests(navi, options, [tables])[0], (1, _MANY)),
    "match": (_match, (2, _MANY)),
    "name": (_name, (1, 1)),
    "impute": (_impute, (1, 1)),
    "link": (lambda navi, tables, options: navi.link(tables, **options).to_arrow(), (2, 2)),
    "search": (
        lambda navi, tables, options: navi.search(tables, _read_like(options), options["k"]).to_arrow(),
        (1, _MANY),
    ),
}
"""What answers a request, and the least and the most tables that it takes; its parameters are in DESCRIPTION."""


class Service:
    """A model that answers requests."""

    def __init__(self, navi: Navi, limits: Limits, index: SearchIndex | None, description: dict[str, Any]) -> None:
        self.navi, self.limits, self.index = navi, limits, index
        asked = {verb: description["paths"][f"/v1/{verb}"]["post"]["parameters"] for verb in VERBS}
        self.schemas = {verb: {each["name"]: each["schema"] for each in asked[verb]} for verb in VERBS}
        """What is known of the parameters of each verb."""
        self.queue = JobQueue(places=limits.queue, batch_rows=limits.batch_rows)
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("navi_requests", "Requests answered.", ["verb", "code"], registry=registry)
        self.seconds = Histogram("navi_request_seconds", "Time to the answer.", ["verb"], registry=registry)
        self.rows = Counter("navi_rows", "Rows read.", ["verb"], registry=registry)
        sizes = (1, 2, 4, 8, 16, 32, 64)
        self.batches = Histogram("navi_batch_requests", "Requests embedded at once.", buckets=sizes, registry=registry)
        places = Gauge("navi_queue", "Requests that are read, wait or run.", registry=registry)
        places.set_function(lambda: self.queue.taken)

    async def answer(self, request: Request, verb: str) -> Response:
        """Answer a request, and count it."""
        begun = time.perf_counter()
        response = await self._answer(request, verb)
        self.requests.labels(verb, response.status_code).inc()
        self.seconds.labels(verb).observe(time.perf_counter() - begun)
        return response

    async def _answer(self, request: Request, verb: str) -> Response:
        try:
            with self.queue.take_place():
                async with asyncio.timeout(self.limits.seconds):
                    return await self._run(request, verb)
        except QueueFullError:
            return answer_error(429, "Too many requests are waiting. Try again later.", {"retry-after": "1"})
        except TimeoutError:
            return answer_error(504, f"The answer took longer than {self.limits.seconds:g} seconds. Send fewer rows.")
        except HTTPException as error:
            return answer_error(error.status_code, error.detail)
        except NaviError as error:
            return answer_error(422, str(error))
        except ClientDisconnect:
            return answer_error(400, "The request ended before its body.")

    async def _run(self, request: Request, verb: str) -> Response:
        options = self._read_options(request.query_params, verb)
        kind = choose_kind(request.headers.get("accept", ""))
        if request.headers.get("content-encoding", "identity") != "identity":
            raise HTTPException(415, "The body is encoded. Send it as it is.")
        body = await read_bytes(request, self.limits.body_bytes)
        if verb == "search" and self.index is not None and not body:
            like, index = _read_like(options), self.index
            job = Job(run=lambda _: [index.search(like, options["k"])[0].to_arrow()], payload=None, size=1)
        else:
            tables = await asyncio.to_thread(self._read_tables, body, find_kind(request), verb)
            num_rows = sum(table.num_rows for table in tables.values())
            self.rows.labels(verb).inc(num_rows)
            job = self._make_job(verb, tables, options, num_rows)
        found = await asyncio.wrap_future(self.queue.submit(job))
        return Response(await asyncio.to_thread(write_body, found, kind), media_type=kind)

    def _read_options(self, query: Mapping[str, str], verb: str) -> dict[str, Any]:
        """Return all parameters; an error where one is unknown or does not fit."""
        known = self.schemas[verb]
        for name in query:
            if name not in known:
                raise ConfigError(f"{verb} has no parameter '{name[:60]}'. Known: {', '.join(known) or 'none'}.")
        return {
            name: read_value(name, schema, query[name]) if name in query else schema.get("default")
            for name, schema in known.items()
        }

    def _make_job(self, verb: str, tables: Tables, options: Options, num_rows: int) -> Job:
        if verb != "embed":
            return Job(run=lambda _: [VERBS[verb][0](self.navi, tables, options)], payload=None, size=num_rows)
        return Job(
            run=partial(self._embed, options), payload=tables, size=num_rows, kind=tuple(sorted(options.items()))
        )

    def _embed(self, options: Options, requests: Sequence[Tables]) -> list[pa.Table]:
        self.batches.observe(len(requests))
        return embed_requests(self.navi, options, requests)

    def _read_tables(self, body: bytes, kind: str, verb: str) -> Tables:
        frames, limits = read_body(body, kind), self.limits
        least, most = VERBS[verb][1]
        if not least <= len(frames) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise TableError(f"{verb} takes {wanted} tables, got {len(frames)}.")
        for frame in frames.values():
            if isinstance(frame, pa.Table) and frame.num_columns > limits.columns:
                raise HTTPException(413, f"A table has {frame.num_columns} columns. {limits.columns} are allowed.")
        num_rows = sum(map(len, frames.values()))
        if num_rows > limits.rows:
            raise HTTPException(413, f"The request has {num_rows} rows. {limits.rows} are allowed.")
        config = self.navi.read_config
        tables = {name: replace(read_table(each, config), name=name) for name, each in frames.items()}
        num_columns = sum(len(table.headers) for table in tables.values())
        if num_columns > limits.columns:
            raise HTTPException(413, f"The request has {num_columns} columns. {limits.columns} are allowed.")
        if not num_columns:
            raise TableError("The tables have no columns.")
        return tables


def find_kind(request: Request) -> str:
    """Return what a body is; an error where it is nothing that is read here."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (JSON, ARROW):
        raise HTTPException(415, f"The content type must be {JSON} or {ARROW}.")
    return kind


def choose_kind(accept: str) -> str:
    """Return what an answer is to be: Arrow where a client names it, else JSON."""
    return ARROW if ARROW in accept.lower() else JSON


def make_service(
    navi: Navi,
    *,
    limits: Limits | None = None,
    access: Access | None = None,
    index: SearchIndex | None = None,
    reconciler: Reconciler | None = None,
) -> Starlette:
    """Return the application of `navi serve`.

    `index` is what a search without a body goes through, `reconciler` the table that OpenRefine reconciles with.
    """
    limits, access = limits or Limits(), access or Access()
    description = describe_service(limits, access)
    service, described = Service(navi, limits, index, description), write_json(description)

    async def say_health(request: Request) -> Response:
        return Response(b'{"status": "ok"}', media_type=JSON)

    async def say_ready(request: Request) -> Response:
        queue = service.queue
        if queue.is_open and queue.taken < queue.places:
            return Response(b'{"status": "ready"}', media_type=JSON)
        return answer_error(503, "The queue is full." if queue.is_open else "The service is stopping.")

    async def show_metrics(request: Request) -> Response:
        return Response(generate_latest(service.registry), media_type="text/plain; version=0.0.4")

    async def describe(request: Request) -> Response:
        return Response(described, media_type=JSON)

    def make_route(verb: str) -> Route:
        async def answer(request: Request) -> Response:
            return await service.answer(request, verb)

        return Route(f"/v1/{verb}", answer, methods=["POST"])

    @asynccontextmanager
    async def live(app: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.queue.close)

    return Starlette(
        routes=[
            *map(make_route, VERBS),
            Route("/health", say_health),
            Route("/ready", say_ready),
            Route("/metrics", show_metrics),
            Route("/openapi.json", describe),
            *(list_routes(reconciler) if reconciler else ()),
        ],
        middleware=[Middleware(Gate, access=access, open_paths=OPEN_PATHS)],
        exception_handlers={HTTPException: answer_http_error, Exception: answer_failure},
        lifespan=live,
    )


def describe_service(limits: Limits, access: Access) -> dict[str, Any]:
    """Return the service as an OpenAPI document."""
    found = read_json(DESCRIPTION, ConfigError, "Reinstall navi-tables.")
    found["info"]["version"] = VERSION
    found["components"]["schemas"]["Rows"]["maxItems"] = limits.rows
    found["security"] = [{"token": []}] if access.token else []
    return found
