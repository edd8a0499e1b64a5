"""The service: verbs over HTTP, limits, who may ask, and an end without loss."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import httpx2
import numpy as np
import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from navi.errors import ConfigError, TableError
from navi.server import Access
from navi.server.jobs import Job, JobQueue
from navi.server.service import Limits, make_service
from navi.settings import MATCH_THRESHOLD
from navi.verbs import index_frames
from navi.version import VERSION

ARROW = "application/vnd.apache.arrow.stream"
FILMS = [{"title": f"night {n}", "year": str(1990 + n % 7), "genre": ("drama", "comedy")[n % 2]} for n in range(8)]
OTHERS = [{"Movie_Title": f"night {n}", "releaseYear": str(1990 + n % 7)} for n in range(8)]


def open_client(navi, **settings):
    return TestClient(make_service(navi, **settings), base_url="http://127.0.0.1")


@pytest.fixture(scope="module")
def client(navi):
    with open_client(navi) as opened:
        yield opened


def write_stream(table, name=None, **options):
    sink = pa.BufferOutputStream()
    table = table if name is None else table.replace_schema_metadata({"table": name})
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def post_arrow(client, path, *streams, **settings):
    return client.post(path, content=b"".join(streams), headers={"content-type": ARROW, "accept": ARROW}, **settings)


def test_rows_are_embedded_as_the_library_does_in_json_and_arrow(client, navi):
    expected = navi.embed_rows(FILMS, normalize=True)
    rows = client.post("/v1/embed?normalize=true", json={"rows": FILMS}).json()["rows"]
    np.testing.assert_allclose([row["vector"] for row in rows], expected, atol=1e-5)
    assert [row["row"] for row in rows] == list(range(1, 9))
    answer = post_arrow(client, "/v1/embed?normalize=true", write_stream(pa.Table.from_pylist(FILMS)))
    found = pa.ipc.open_stream(answer.content).read_all()
    np.testing.assert_allclose(np.stack(found["vector"].to_numpy()), expected, atol=1e-5)


def test_columns_are_matched_over_tables_in_one_body(client, navi):
    expected = navi.match({"a": FILMS, "b": OTHERS}).to_arrow().to_pylist()
    assert client.post("/v1/match", json={"tables": {"a": FILMS, "b": OTHERS}}).json()["rows"] == expected
    streams = [write_stream(pa.Table.from_pylist(rows), name) for name, rows in (("a", FILMS), ("b", OTHERS))]
    answer = post_arrow(client, "/v1/match", *streams)
    assert pa.ipc.open_stream(answer.content).read_all().to_pylist() == expected
    ranked = client.post("/v1/match?to=b&top=1", json={"tables": {"a": FILMS, "b": OTHERS}}).json()["rows"]
    assert [row["header"] for row in ranked] == ["title", "year", "genre"]
    assert {row["target"] for row in ranked} <= {"Movie_Title", "releaseYear"}


@pytest.mark.parametrize(
    ("query", "tables", "columns"),
    [
        ("name?columns=year&top=2", {"a": FILMS}, {"column", "header", "probability", "source", "like"}),
        ("impute?confidence=0.2", {"a": [*FILMS, {"title": "night 9"}]}, {"row", "column", "value", "probability"}),
        ("link?threshold=0.01", {"a": FILMS, "b": FILMS}, {"probability"}),
        ("search?like=title%3Dnight+3&k=2", {"a": FILMS, "b": OTHERS}, {"table", "row", "confidence", "cells"}),
    ],
)
def test_every_other_verb_answers_with_a_table(client, query, tables, columns):
    answer = client.post(f"/v1/{query}", json={"tables": tables})
    assert answer.status_code == 200, answer.text
    assert columns <= answer.json()["rows"][0].keys()


def test_a_search_without_a_body_goes_through_the_index(navi):
    with open_client(navi, index=index_frames(navi, {"films": FILMS})) as client:
        found = client.post("/v1/search?like=title%3Dnight+3&k=2").json()["rows"]
    assert [row["table"] for row in found] == ["films", "films"]


class WaitingRun:
    """A run that notes its batches, and waits in the first one until it may go on."""

    def __init__(self):
        self.batches, self.may_go = [], threading.Event()

    def __call__(self, payloads):
        self.batches.append(list(payloads))
        self.may_go.wait(10)
        if "bad" in payloads:
            raise ValueError("bad")
        return [payload * 2 for payload in payloads]


def test_requests_that_wait_together_run_at_once_and_a_bad_one_fails_alone():
    queue, run = JobQueue(places=9, batch_rows=4), WaitingRun()
    futures = [queue.submit(Job(run=run, payload="first", size=1, kind="embed"))]
    while not run.batches:
        time.sleep(0.001)
    for payload in ("a", "x", "bad", "b", "c", "d"):
        kind = None if payload == "x" else "embed"
        futures.append(queue.submit(Job(run=run, payload=payload, size=1, kind=kind)))
    futures[-1].cancel()
    run.may_go.set()
    queue.close()
    assert run.batches == [["first"], ["a", "bad", "b", "c"], ["a"], ["bad"], ["b"], ["c"], ["x"]]
    assert [future.result() for future in futures[:3]] == ["firstfirst", "aa", "xx"]
    with pytest.raises(ValueError, match="bad"):
        futures[3].result()


def test_a_full_queue_answers_429_and_is_not_ready(navi):
    async def ask_meanwhile():
        app, begun, may_go = make_service(navi, limits=Limits(queue=1)), asyncio.Event(), asyncio.Event()

        async def send_slowly():
            begun.set()
            await may_go.wait()
            yield json.dumps({"rows": FILMS}).encode()

        headers, transport = {"content-type": "application/json"}, httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            first = asyncio.create_task(client.post("/v1/embed", content=send_slowly(), headers=headers))
            await begun.wait()
            second, ready = await client.post("/v1/embed", json={"rows": FILMS}), await client.get("/ready")
            may_go.set()
            return [(await first).status_code, second.status_code, second.headers["retry-after"], ready.status_code]

    assert asyncio.run(ask_meanwhile()) == [200, 429, "1", 503]


def test_two_bodies_are_parsed_at_once_whatever_many_wait(navi, monkeypatch):
    running, few = threading.Semaphore(2), []

    def parse(body, kind):
        may_run = running.acquire(blocking=False)
        few.append(may_run)
        time.sleep(0.05)
        if may_run:
            running.release()
        raise TableError("parsed")

    async def ask():
        transport = httpx2.ASGITransport(make_service(navi))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            answers = await asyncio.gather(*(client.post("/v1/embed", json={"rows": FILMS}) for _ in range(8)))
            return [answer.status_code for answer in answers]

    monkeypatch.setattr("navi.server.service.read_body", parse)
    assert asyncio.run(ask()) == [422] * 8
    assert few == [True] * 8


@pytest.mark.parametrize(
    ("limits", "body", "code", "text"),
    [
        ({"rows": 4}, {"rows": FILMS}, 413, "8 rows. 4 are allowed"),
        ({"columns": 2}, {"rows": FILMS}, 413, "3 columns. 2 are allowed"),
        ({"body_bytes": 50}, {"rows": FILMS}, 413, "more than 50 bytes"),
        ({"seconds": 1e-6}, {"rows": FILMS}, 504, "took longer"),
        ({}, {"rows": []}, 422, "has no rows"),
        ({}, {"rows": [{}]}, 422, "no columns"),
        ({}, {"rows": [1]}, 422, "not a list of objects"),
        ({}, {"lines": []}, 422, "has no tables"),
    ],
)
def test_what_is_too_much_or_wrong_is_said(navi, limits, body, code, text):
    with open_client(navi, limits=Limits(**limits)) as client:
        answer = client.post("/v1/embed", json=body)
    assert (answer.status_code, text in answer.json()["error"]) == (code, True), answer.text


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/v1/embed?pooling=max", "pooling is 'max'"),
        ("/v1/embed?normalize=1", "normalize must be of the type boolean"),
        ("/v1/embed?size=3", "no parameter 'size'. Known: normalize, pooling"),
        ("/v1/impute?confidence=nan", "confidence is 'nan'"),
        ("/v1/search", "like is missing"),
        ("/v1/link", "link takes 2 tables, got 1"),
        ("/v1/name?columns=yeer", "Did you mean 'year'"),
    ],
)
def test_a_wrong_parameter_is_said(client, path, text):
    answer = client.post(path, json={"rows": FILMS})
    assert answer.status_code == 422
    assert text in answer.json()["error"]


def test_bodies_that_are_damaged_or_would_swell_are_refused(client):
    plain = pa.Table.from_pylist(FILMS)
    categories = pa.table({"genre": pa.array(["drama"] * 3).dictionary_encode()})
    nothings = pa.table({"list": pa.array([[None] * 1000], pa.list_(pa.null()))})
    for stream, text in (
        (write_stream(plain, compression="zstd"), "compressed"),
        (write_stream(categories), "dictionaries"),
        (write_stream(nothings), "Cast it"),
        (write_stream(plain)[:-40], "not a stream"),
        (b"\xff" * 100, "not a stream"),
        (write_stream(plain, "a") * 2, "Two tables are called 'a'"),
        (b"", "no tables"),
    ):
        answer = post_arrow(client, "/v1/embed", stream)
        assert answer.status_code == 422
        assert text in answer.json()["error"]
    deep = client.post("/v1/embed", content=b"[" * 100_000, headers={"content-type": "application/json"})
    assert deep.status_code == 422
    zipped = client.post("/v1/embed", json={"rows": FILMS}, headers={"content-encoding": "gzip"})
    assert zipped.status_code == 415
    assert client.post("/v1/embed", content=b"a,b", headers={"content-type": "text/csv"}).status_code == 415


def test_random_bytes_in_a_stream_never_crash_the_service(client):
    stream, draw = write_stream(pa.Table.from_pylist(FILMS)), np.random.default_rng(0)
    for _ in range(200):
        damaged = bytearray(stream)
        for place in draw.integers(0, len(stream), 3):
            damaged[place] = draw.integers(256)
        assert post_arrow(client, "/v1/embed", bytes(damaged)).status_code in (200, 413, 422)


def test_other_machines_need_a_token_and_pages_of_others_cannot_ask(navi):
    with pytest.raises(ConfigError, match="needs a token"):
        Access(host="0.0.0.0")
    with pytest.raises(ConfigError, match="at least 16"):
        Access(host="0.0.0.0", token="short")
    token = "a-token-of-some-length"
    with open_client(navi, access=Access(token=token)) as client:
        assert client.get("/health").status_code == client.get("/ready").status_code == 200
        assert client.get("/metrics").status_code == 401
        wrong = client.post("/v1/embed", json={"rows": FILMS}, headers={"authorization": "Bearer another"})
        assert (wrong.status_code, wrong.headers["www-authenticate"]) == (401, "Bearer")
        headers = {"authorization": f"Bearer {token}"}
        assert client.post("/v1/embed", json={"rows": FILMS}, headers=headers).status_code == 200
        assert client.get("/metrics", headers={**headers, "host": "evil.example"}).status_code == 421


def test_the_description_names_every_verb_and_anything_else_is_an_error_in_json(client):
    found = client.get("/openapi.json").json()
    assert {path for path in found["paths"] if path.startswith("/v1/")} == {
        f"/v1/{verb}" for verb in ("embed", "match", "name", "impute", "link", "search")
    }
    search = found["paths"]["/v1/search"]["post"]
    assert [each["name"] for each in search["parameters"]] == ["like", "k"]
    assert found["paths"]["/v1/match"]["post"]["parameters"][0]["schema"]["default"] == MATCH_THRESHOLD
    assert (found["info"]["version"], found["security"]) == (VERSION, [])
    assert client.get("/v1/nothing").json() == {"error": "Not Found"}
    assert client.get("/v1/embed").status_code == 405


def test_metrics_count_requests_rows_and_batches(navi):
    with open_client(navi) as client:
        client.post("/v1/embed", json={"rows": FILMS})
        client.post("/v1/embed", json={"rows": []})
        lines = client.get("/metrics").text.splitlines()
    assert 'navi_requests_total{code="200",verb="embed"} 1.0' in lines
    assert 'navi_requests_total{code="422",verb="embed"} 1.0' in lines
    assert 'navi_rows_total{verb="embed"} 8.0' in lines
    assert "navi_batch_requests_count 1.0" in lines
    assert "navi_queue 0.0" in lines


def start(arguments, **environment):
    """Start `navi serve` at a free port, and return its process and address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "navi", "serve", "--port", "0", "--device", "cpu", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    line = process.stdout.readline()
    assert "http://" in line, process.stderr.read()
    return process, line.split(" at ")[1].split(",")[0]


def ask(address, path, body=None, token=""):
    headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
    content = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(address + path, content, headers), timeout=60) as answer:
        return json.loads(answer.read())


def test_a_real_process_answers_and_finishes_what_it_took_when_it_is_stopped(reference_dir):
    token = "a-token-of-some-length"
    process, address = start(["--model", reference_dir, "--host", "0.0.0.0"], NAVI_TOKEN=token)
    try:
        address = address.replace("0.0.0.0", "127.0.0.1")
        assert ask(address, "/ready") == {"status": "ready"}
        with pytest.raises(urllib.error.HTTPError, match="401"):
            ask(address, "/openapi.json")
        rows = [{"title": f"night {n}", "text": f"a long story of {n} kings " * 40} for n in range(300)]
        answers = []
        threads = [
            threading.Thread(target=lambda: answers.append(ask(address, "/v1/embed", {"rows": rows}, token)))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join()
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert [len(answer["rows"]) for answer in answers] == [300, 300]
    assert (process.returncode, "Stopped" in output, "Traceback" in errors) == (0, True, False)


def test_a_service_that_could_not_be_reached_safely_does_not_start(navi_command, reference_dir, tmp_path):
    result = navi_command("serve", "--host", "0.0.0.0", code=2)
    assert "needs a token" in result.output
    assert "Cannot read the token" in navi_command("serve", "--token-file", tmp_path / "none", code=2).output
    (tmp_path / "token").write_text("a-token-of-some-length\n")
    elsewhere = navi_command("serve", "--host", "203.0.113.7", "--token-file", tmp_path / "token", code=2)
    assert "Cannot listen" in elsewhere.output


@pytest.mark.long
def test_schemathesis_finds_no_failure(reference_dir):
    if (schemathesis := shutil.which("schemathesis")) is None:
        pytest.skip("schemathesis is not installed: pipx install schemathesis")
    process, address = start(["--model", reference_dir, "--max-rows", 50])
    try:
        checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
        command = [schemathesis, "run", f"{address}/openapi.json", "--checks", checks, "--max-examples", "60"]
        command += ["--seed", "0", "--request-timeout", "90"]  # the service itself answers 504 after 60
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stdout[-8000:]
    finally:
        process.terminate()
        process.communicate(timeout=60)
