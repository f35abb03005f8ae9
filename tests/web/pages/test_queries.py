"""The queries of addresses: each parameter is obeyed or refused, never ignored [M3]."""

import re
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.web.pages.kit import Html
from windlass import Windlass
from windlass.web.api.routing import ENDPOINTS
from windlass.web.pages import PAGES, Page


@pytest.mark.parametrize("page", [each for each in PAGES if each.method == "GET"], ids=lambda each: each.path)
async def test_a_parameter_that_a_page_does_not_read_is_refused(
    page: Page, app: Windlass, visitor: httpx.AsyncClient
) -> None:
    path = page.path.format(name="mail", id="1")  # a query is read before anything is asked of the store
    refused = await visitor.get(path, params={"colour": "red"})
    assert refused.status_code == 400
    said = Html(refused.text).text
    assert "unknown parameter 'colour'; this address takes " + ", ".join((*page.query, "did, n")) in said
    twice = await visitor.get(f"{path}?{'&'.join(f'{name}=1' for name in [*page.query, 'did', 'did'])}")
    assert (twice.status_code, "twice" in twice.text) == (400, True)


@pytest.mark.parametrize(
    "address",
    [
        "/?range=2h",
        "/operations?range=1h",
        "/events?kind=odd",
        "/parents?active=yes",
        "/workers?worker=a&host=b",
    ],
)
async def test_a_value_that_a_page_does_not_know_is_refused(visitor: httpx.AsyncClient, address: str) -> None:
    refused = await visitor.get(address)
    assert refused.status_code == 400


async def test_jobs_are_filtered_by_parameters_too(app: Windlass, visitor: httpx.AsyncClient) -> None:
    """What works at /dead and in the API works here: it becomes a search."""
    (await visitor.post("/api/jobs", json={"task": "a"})).raise_for_status()
    wanted = (await visitor.post("/api/jobs", json={"task": "b", "kwargs": {"note": "x y"}})).json()["id"]
    asked = await visitor.get("/jobs", params={"task": "b", "state": "ready", "text": "x y"})
    assert parse_qs(urlsplit(asked.headers["location"]).query)["q"] == ['task:b state:ready "x y"']
    found = Html((await visitor.get(asked.headers["location"])).text).links()
    assert [link for link in found if re.fullmatch(r"/jobs/\d+", link)] == [f"/jobs/{wanted}"]
    wrong = await visitor.get("/jobs", params={"state": "odd"}, follow_redirects=True)
    assert wrong.status_code == 400
    both = await visitor.get("/jobs", params={"task": "b", "q": "task:a"}, follow_redirects=True)
    assert (both.status_code, "task: is given twice" in both.text) == (400, True)


@pytest.mark.parametrize(
    "path", ["/metrics", "/api/openapi.json", "/api/stream", "/api/jobs/1/events",
             *(f"/api{each.path}" for each in ENDPOINTS if each.method == "GET")],
)  # fmt: skip
async def test_a_parameter_that_an_endpoint_does_not_read_is_refused(
    app: Windlass, visitor: httpx.AsyncClient, path: str
) -> None:
    refused = await visitor.get(path.format(name="mail", id="1", signal="go"), params={"colour": "red"})
    assert refused.status_code == 400
    assert "unknown parameter 'colour'; this address takes " in Html(refused.text).text
