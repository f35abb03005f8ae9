"""The OpenAPI document: valid, complete, and true."""

import json
import re
from typing import Any

import httpx
import jsonschema_rs

from tests.web.kit import rigged, visiting
from windlass import Windlass
from windlass.web.api.openapi import document
from windlass.web.api.routing import ENDPOINTS

DOCUMENT = document(ENDPOINTS)
STREAMS = {("GET", "/api/stream"), ("GET", "/api/jobs/{id}/events")}


def refs(value: Any) -> set[str]:
    """Every reference in it."""
    if isinstance(value, dict):
        found = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return found.union(*map(refs, value.values()))
    return set().union(*map(refs, value)) if isinstance(value, list) else set()


def operations() -> dict[tuple[str, str], Any]:
    return {
        (method.upper(), path): operation
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
    }


def test_every_endpoint_is_in_it() -> None:
    documented = set(operations())
    assert documented == {(each.method, f"/api{each.path}") for each in ENDPOINTS} | STREAMS


def test_it_hangs_together() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    schemas = DOCUMENT["components"]["schemas"]
    assert refs(DOCUMENT) <= {f"#/components/schemas/{name}" for name in schemas}
    names = [operation["operationId"] for operation in operations().values()]
    assert len(set(names)) == len(names)
    for schema in schemas.values():
        jsonschema_rs.meta.validate(schema)


def test_its_names_are_those_of_its_users() -> None:
    names = {operation["operationId"] for operation in operations().values()}
    assert {"list_jobs", "show_job", "list_queues", "show_queue", "start_bulk", "show_bulk"} <= names
    assert not [name for name in DOCUMENT["components"]["schemas"] if "." in name]
    assert ("GET", "/api/bulk/{id}") in operations()
    assert not re.search(r"\[[A-Z]\d+\]", json.dumps(DOCUMENT))


def test_each_says_who_may_and_what_can_go_wrong() -> None:
    for (method, path), operation in operations().items():
        assert operation["summary"]
        assert operation["x-role"] in ("read", "operate")
        assert {"401", "403", "429", "503"} <= set(operation["responses"]), (method, path)
        assert ("413" in operation["responses"]) == ("requestBody" in operation)
        for status, answer in operation["responses"].items():
            if status in ("429", "503"):
                assert "Retry-After" in answer["headers"]


async def test_it_is_served(visitor: httpx.AsyncClient) -> None:
    assert (await visitor.get("/api/openapi.json")).json() == DOCUMENT


async def test_answers_are_what_it_says(app: Windlass) -> None:
    """Every GET without a name in its path, on a store with something in it."""
    async with rigged(app) as rig, visiting(app) as visitor:
        worker = await rig.worker("default")
        await rig.parent(worker, 3)
        await rig.store.set_budget("b", {"rate": 1.0})
        (id,) = await rig.add("t", ordering_key="k")
        paths = [
            (f"/api{each.path}", f"/api{each.path}")
            for each in ENDPOINTS
            if each.method == "GET" and "{" not in each.path
        ]
        paths += [("/api/jobs/{id}", f"/api/jobs/{id}"), ("/api/queues/{name}", "/api/queues/default")]
        for path, filled in paths:
            documented = operations()["GET", path]["responses"]["200"]["content"]["application/json"][
                "schema"
            ]
            schema = {**documented, "components": DOCUMENT["components"]}
            jsonschema_rs.validate(schema, (await visitor.get(filled)).json())
