"""OpenRefine at work with a table: the requests that it sends, and what it can do with the answers."""

from __future__ import annotations

import json
import time

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.testclient import TestClient

from navi.errors import TableError
from navi.server.application import Access, Gate, answer_http_error
from navi.server.reconcile import Reconciler, list_routes
from navi.tables import read_tables

FILMS = [
    {"id": "a1", "title": "The Night Watch", "year": "1973", "country": "France"},
    {"id": "a2", "title": "The Night Watch", "year": "2004", "country": "Russia"},
    {"id": "a3", "title": "Señor <b>X</b>", "year": "1988", "country": "Spain"},
    {"id": "a4", "title": "A Winter's Tale", "year": "1992", "country": "France"},
    {"id": "a5", "year": "1999", "country": "Italy"},
]
OPENREFINE = {"origin": "http://127.0.0.1:3333", "user-agent": "OpenRefine/3.8.2"}


def open_client(rows, name="films"):
    (table,) = read_tables({name: rows}).values()
    app = Starlette(
        routes=list_routes(Reconciler(table)),
        middleware=[Middleware(Gate, access=Access())],
        exception_handlers={HTTPException: answer_http_error},
    )
    return TestClient(app, base_url="http://127.0.0.1:8080", headers=OPENREFINE)


@pytest.fixture
def client():
    with open_client(FILMS) as opened:
        yield opened


def ask(client, **queries):
    answer = client.post("/reconcile", data={"queries": json.dumps(queries)})
    assert answer.status_code == 200, answer.text
    return {key: found["result"] for key, found in answer.json().items()}


def test_the_manifest_names_every_part_of_the_service(client):
    answer = client.get("/reconcile")
    manifest = answer.json()
    assert answer.headers["access-control-allow-origin"] == OPENREFINE["origin"]
    assert "0.2" in manifest["versions"]
    assert {"name", "identifierSpace", "schemaSpace"} <= manifest.keys()
    assert manifest["defaultTypes"] == [{"id": "films", "name": "films"}]
    for each in manifest["suggest"].values():
        assert client.get(each["service_url"] + each["service_path"] + "?prefix=e").status_code == 200
    assert client.get(manifest["preview"]["url"].replace("{{id}}", "1")).status_code == 200


def test_the_request_that_guesses_types_gets_the_types_of_candidates(client):
    found = ask(client, q0={"query": "winters tale", "limit": 3}, q1={"query": "senor x", "limit": 3})
    assert [each[0]["name"] for each in found.values()] == ["A Winter's Tale", "Señor <b>X</b>"]
    assert found["q0"][0]["type"] == [{"id": "films", "name": "films"}]
    assert isinstance(found["q0"][0]["id"], str)
    assert all(isinstance(each["match"], bool) and 0 <= each["score"] <= 100 for each in found["q0"])


def test_properties_decide_between_rows_of_one_name(client):
    query = {"query": "The Night Watch", "type": "films", "type_strict": "should"}
    (alone,) = ask(client, q0=query).values()
    assert [each["match"] for each in alone[:2]] == [False, False]
    year = [{"pid": "year", "v": "2004"}, {"pid": "country", "v": {"id": "RU", "name": "Russia"}}]
    (told,) = ask(client, q0={**query, "properties": year}).values()
    assert (told[0]["id"], told[0]["match"]) == ("2", True)
    assert told[0]["score"] > told[1]["score"]
    (several,) = ask(client, q0={**query, "properties": [{"pid": "year", "v": ["1800", "1973"]}]}).values()
    assert several[0]["id"] == "1"


def test_what_names_nothing_finds_nothing(client):
    found = ask(client, a={"query": ""}, b={"query": "zzqq"}, c={"query": None, "properties": 3, "limit": "x"})
    assert found == {"a": [], "b": [], "c": []}


def test_entities_properties_and_types_are_suggested(client):
    def suggest(kind, prefix):
        return [each["name"] for each in client.get(f"/reconcile/suggest/{kind}?prefix={prefix}").json()["result"]]

    assert suggest("entity", "wint")[0] == "A Winter's Tale"
    assert suggest("property", "CO") == ["country"]
    assert suggest("property", "") == ["id", "title", "year", "country"]
    assert suggest("type", "fi") == ["films"]


def test_a_preview_shows_a_row_as_text_in_a_frame_of_this_machine_alone(client):
    page = client.get("/reconcile/preview?id=3")
    assert "Señor &lt;b&gt;X&lt;/b&gt;" in page.text
    assert "frame-ancestors http://127.0.0.1:* http://localhost:*" in page.headers["content-security-policy"]
    assert client.get("/reconcile/preview?id=77").status_code == 404


def test_what_is_no_query_is_said_and_other_sites_read_nothing(client):
    assert client.post("/reconcile", data={"queries": "{"}).status_code == 400
    assert client.post("/reconcile", data={"queries": "[1]"}).status_code == 400
    answer = client.get("/reconcile", headers={"origin": "https://elsewhere.example"})
    assert "access-control-allow-origin" not in answer.headers
    assert client.get("/reconcile", headers={"host": "elsewhere.example"}).status_code == 421


def test_a_table_without_names_is_an_error():
    (table,) = read_tables({"films": FILMS}).values()
    with pytest.raises(TableError, match="has no column 'label'"):
        Reconciler(table, "label")


def test_a_thousand_queries_in_batches_of_ten_take_less_than_ten_seconds():
    words = ["night", "river", "gold", "winter", "star", "king", "house", "silent", "red", "city", "dream", "fall"]
    names = [f"{a} {b} of the {c} {n}" for n in range(3) for a in words for b in words for c in words]
    with open_client([{"title": name, "year": str(1950 + k % 70)} for k, name in enumerate(names)]) as client:
        begun, right = time.process_time(), 0
        for start in range(0, 1_000, 10):
            places = [5 * k for k in range(start, start + 10)]
            queries = {
                f"q{k}": {"query": names[k].upper(), "properties": [{"pid": "year", "v": str(1950 + k % 70)}]}
                for k in places
            }
            found = ask(client, **queries)
            right += sum(found[f"q{k}"][0]["name"] == names[k] for k in places)
        assert time.process_time() - begun < 10
    assert right == 1_000
