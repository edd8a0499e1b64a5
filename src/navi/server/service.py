"""The service behind `navi serve`: the verbs over HTTP, within limits, one batch for requests that wait together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import pyarrow as pa
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from navi.errors import ConfigError, NaviError, TableError
from navi.server.application import Access, Gate, answer_error, answer_failure, answer_http_error, read_bytes
from navi.server.bodies import ARROW, JSON, read_body, write_body, write_json
from navi.server.jobs import Job, JobQueue, QueueFullError
from navi.server.reconcile import Reconciler, list_routes
from navi.settings import MATCH_THRESHOLD
from navi.tables import Table, read_table
from navi.verbs import Navi, SearchIndex, parse_like
from navi.version import VERSION

NUM_READERS = 2
"""Bodies that are parsed at once: one of small values takes thirty times its size until its rows are counted."""
OPEN_PATHS = ("/health", "/ready")
"""What anybody may ask: a load balancer has no token."""
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


@dataclass(frozen=True)
class Parameter:
    """A parameter of a verb, in the query of its address."""

    name: str
    kind: Literal["boolean", "integer", "number", "string"]
    text: str
    default: Any = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    """`minimum`, `maximum`, `enum` … as a JSON schema has them."""

    @property
    def schema(self) -> dict[str, Any]:
        """The parameter as a JSON schema."""
        return {"type": self.kind, **self.limits, **({} if self.default is None else {"default": self.default})}

    def read(self, text: str) -> Any:
        """Return what a text says; an error where it does not fit."""
        booleans = {"true": True, "false": False}
        readers: dict[str, Callable[[str], Any]] = {"integer": int, "number": float, "boolean": booleans.__getitem__}
        try:
            value = readers.get(self.kind, str)(text)
        except (ValueError, KeyError) as error:
            raise ConfigError(f"{self.name} must be of the type {self.kind}, got '{text[:60]}'.") from error
        low, high = self.limits.get("minimum", value), self.limits.get("maximum", value)
        if value not in self.limits.get("enum", (value,)) or not low <= value <= high:
            allowed = ", ".join(f"{name} {limit}" for name, limit in self.limits.items())
            raise ConfigError(f"{self.name} is '{text[:60]}'. Allowed: {allowed}.")
        if isinstance(value, str) and len(value) > self.limits.get("maxLength", len(value)):
            raise ConfigError(f"{self.name} has {len(value)} characters. Allowed: {self.limits['maxLength']}.")
        return value


@dataclass(frozen=True, kw_only=True)
class Verb:
    """A verb of the service."""

    name: str
    text: str
    answer: Callable[[Navi, Tables, Options], pa.Table]
    num_tables: tuple[int, int]
    """The least and the most tables that it takes."""
    parameters: tuple[Parameter, ...] = ()

    def read_options(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return all parameters; an error where one is unknown or does not fit."""
        known = {each.name: each for each in self.parameters}
        for name in query:
            if name not in known:
                raise ConfigError(f"{self.name} has no parameter '{name[:60]}'. Known: {', '.join(known) or 'none'}.")
        return {name: each.read(query[name]) if name in query else each.default for name, each in known.items()}


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


_COLUMNS = Parameter("columns", "string", "Columns, between commas.", limits={"maxLength": 10_000})
_CHANCE = {"minimum": 0.001, "maximum": 0.999}
_THRESHOLD = Parameter("threshold", "number", "Probability from which a match counts.", MATCH_THRESHOLD, _CHANCE)
_ONE_TO_ONE = Parameter("one_to_one", "boolean", "Each has one partner at most.", False)
_TOP = Parameter("top", "integer", "Candidates for each column.", 5, {"minimum": 1, "maximum": 100})
_POOLINGS = {"enum": ["text", "cls", "mean", "values"]}
_MANY = 1_000
VERBS = (
    Verb(
        name="embed",
        text="A vector for each row.",
        answer=lambda navi, tables, options: embed_requests(navi, options, [tables])[0],
        num_tables=(1, _MANY),
        parameters=(
            Parameter("normalize", "boolean", "Scale vectors to length 1.", False),
            Parameter("pooling", "string", "What stands for a row.", limits=_POOLINGS),
        ),
    ),
    Verb(
        name="match",
        text="Columns of several tables that mean the same; with `to`, candidates in that table.",
        answer=_match,
        num_tables=(2, _MANY),
        parameters=(
            *(_THRESHOLD, _ONE_TO_ONE, _TOP),
            Parameter("to", "string", "The table of the request that is the target schema."),
        ),
    ),
    Verb(
        name="name",
        text="Headers for the columns of a table; by default for those whose header says nothing.",
        answer=_name,
        num_tables=(1, 1),
        parameters=(_COLUMNS, _TOP),
    ),
    Verb(
        name="impute",
        text="Values for the empty cells of a table, and how likely they are.",
        answer=_impute,
        num_tables=(1, 1),
        parameters=(
            Parameter("confidence", "number", "How likely a value must be.", 0.0, {"minimum": 0, "maximum": 1}),
            _COLUMNS,
        ),
    ),
    Verb(
        name="link",
        text="Rows of two tables that are about the same thing.",
        answer=lambda navi, tables, options: navi.link(tables, **options).to_arrow(),
        num_tables=(2, 2),
        parameters=(replace(_THRESHOLD, default=0.5), _ONE_TO_ONE),
    ),
    Verb(
        name="search",
        text="The rows nearest to one: of the tables in the request or, without a body, of the service's index.",
        answer=lambda navi, tables, options: navi.search(tables, _read_like(options), options["k"]).to_arrow(),
        num_tables=(1, _MANY),
        parameters=(
            Parameter(
                "like", "string", "The row to look for, as `title=Alien, year=1979`.", None, {"maxLength": 10_000}
            ),
            Parameter("k", "integer", "Rows to find.", 10, {"minimum": 1, "maximum": 1_000}),
        ),
    ),
)


class Service:
    """A model that answers requests."""

    def __init__(self, navi: Navi, limits: Limits, index: SearchIndex | None) -> None:
        self.navi, self.limits, self.index = navi, limits, index
        self.queue = JobQueue(places=limits.queue, batch_rows=limits.batch_rows)
        self.readers = ThreadPoolExecutor(NUM_READERS, "navi-readers")
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("navi_requests", "Requests answered.", ["verb", "code"], registry=registry)
        self.seconds = Histogram("navi_request_seconds", "Time to the answer.", ["verb"], registry=registry)
        self.rows = Counter("navi_rows", "Rows read.", ["verb"], registry=registry)
        sizes = (1, 2, 4, 8, 16, 32, 64)
        self.batches = Histogram("navi_batch_requests", "Requests embedded at once.", buckets=sizes, registry=registry)
        places = Gauge("navi_queue", "Requests that are read, wait or run.", registry=registry)
        places.set_function(lambda: self.queue.taken)

    async def answer(self, request: Request, verb: Verb) -> Response:
        """Answer a request, and count it."""
        begun = time.perf_counter()
        response = await self._answer(request, verb)
        self.requests.labels(verb.name, response.status_code).inc()
        self.seconds.labels(verb.name).observe(time.perf_counter() - begun)
        return response

    async def _answer(self, request: Request, verb: Verb) -> Response:
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

    async def _run(self, request: Request, verb: Verb) -> Response:
        options = verb.read_options(request.query_params)
        kind = choose_kind(request.headers.get("accept", ""))
        if request.headers.get("content-encoding", "identity") != "identity":
            raise HTTPException(415, "The body is encoded. Send it as it is.")
        body = await read_bytes(request, self.limits.body_bytes)
        if verb.name == "search" and self.index is not None and not body:
            like, index = _read_like(options), self.index
            job = Job(run=lambda _: [index.search(like, options["k"])[0].to_arrow()], payload=None, size=1)
        else:
            loop = asyncio.get_running_loop()
            tables = await loop.run_in_executor(self.readers, self._read_tables, body, find_kind(request), verb)
            num_rows = sum(table.num_rows for table in tables.values())
            self.rows.labels(verb.name).inc(num_rows)
            job = self._make_job(verb, tables, options, num_rows)
        found = await asyncio.wrap_future(self.queue.submit(job))
        return Response(await asyncio.to_thread(write_body, found, kind), media_type=kind)

    def _make_job(self, verb: Verb, tables: Tables, options: Options, num_rows: int) -> Job:
        if verb.name != "embed":
            return Job(run=lambda _: [verb.answer(self.navi, tables, options)], payload=None, size=num_rows)
        return Job(
            run=partial(self._embed, options), payload=tables, size=num_rows, kind=tuple(sorted(options.items()))
        )

    def _embed(self, options: Options, requests: Sequence[Tables]) -> list[pa.Table]:
        self.batches.observe(len(requests))
        return embed_requests(self.navi, options, requests)

    def _read_tables(self, body: bytes, kind: str, verb: Verb) -> Tables:
        frames, limits = read_body(body, kind), self.limits
        least, most = verb.num_tables
        if not least <= len(frames) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise TableError(f"{verb.name} takes {wanted} tables, got {len(frames)}.")
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
    service = Service(navi, limits, index)
    described = write_json(describe_service(limits, access))

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

    def make_route(verb: Verb) -> Route:
        async def answer(request: Request) -> Response:
            return await service.answer(request, verb)

        return Route(f"/v1/{verb.name}", answer, methods=["POST"])

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
    rows = {"type": "array", "items": {"type": "object"}, "minItems": 1, "maxItems": limits.rows}
    tables = {"type": "object", "minProperties": 1, "additionalProperties": {"$ref": "#/components/schemas/Rows"}}
    body = {"oneOf": [_make_object("rows", {"$ref": "#/components/schemas/Rows"}), _make_object("tables", tables)]}
    error = {"description": "What is wrong.", "content": {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}}
    codes = ("400", "401", "413", "415", "422", "429", "500", "504")
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "NAVI", "version": VERSION, "description": "Tables without a common schema."},
        "paths": {},
        "components": {
            "schemas": {
                "Rows": rows,
                "Tables": body,
                "Error": _make_object("error", {"type": "string"}),
                "Answer": _make_object("rows", {"type": "array", "items": {"type": "object"}}),
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}] if access.token else [],
    }
    binary = {"schema": {"type": "string", "contentMediaType": ARROW}}
    for verb in VERBS:
        answer = {JSON: {"schema": {"$ref": "#/components/schemas/Answer"}}, ARROW: binary}
        found["paths"][f"/v1/{verb.name}"] = {
            "post": {
                "operationId": verb.name,
                "summary": verb.text,
                "parameters": [
                    {"name": each.name, "in": "query", "description": each.text, "schema": each.schema}
                    for each in verb.parameters
                ],
                "requestBody": {
                    "required": verb.name != "search",
                    "content": {JSON: {"schema": {"$ref": "#/components/schemas/Tables"}}, ARROW: binary},
                },
                "responses": {"200": {"description": "A table.", "content": answer}, **dict.fromkeys(codes, error)},
            }
        }
    texts = {"/health": "Whether the process lives.", "/ready": "Whether it takes requests.", "/metrics": "Counts."}
    for path, text in texts.items():
        kind = "text/plain" if path == "/metrics" else JSON
        ok = {"description": text, "content": {kind: {"schema": {"type": "string" if kind != JSON else "object"}}}}
        found["paths"][path] = {
            "get": {
                "summary": text,
                "operationId": path[1:],
                "security": [] if path in OPEN_PATHS else found["security"],
                "responses": {"200": ok, **dict.fromkeys(("401", "503"), error)},
            }
        }
    return found


def _make_object(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": [name], "properties": {name: schema}, "additionalProperties": False}
