"""Who is let in, from where, with what and for how long [M5]."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from tests.web.kit import OPERATE, READ, basic, bearer, visiting
from windlass import Windlass
from windlass.errors import ConfigurationError
from windlass.store.memory import MemoryStore
from windlass.web import Role, Who
from windlass.web.answers import CSP
from windlass.web.patience import GUESSES, SLOWED

KEYS: dict[str, Any] = {"read": [READ], "operate": [OPERATE]}


def code(answer: httpx.Response) -> str:
    return str(answer.json()["error"]["code"])


# -- who ----------------------------------------------------------------------------------------------------


async def test_without_credentials_this_machine_may_do_everything(visitor: httpx.AsyncClient) -> None:
    assert (await visitor.put("/api/queues/mail", json={})).status_code == 200
    assert (await visitor.get("/api/queues/mail")).status_code == 200


@pytest.mark.parametrize("client", ["10.0.0.7", "2001:db8::1", ""])
async def test_without_credentials_nobody_else_is_served(app: Windlass, client: str) -> None:
    async with visiting(app, client=client) as stranger:
        answer = await stranger.get("/api/queues")
    assert (answer.status_code, code(answer)) == (403, "closed")
    assert "WINDLASS_WEB_OPERATE" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "header",
    [
        "forwarded",
        "via",
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-forwarded-server",
        "x-forwarded-port",
        "x-real-ip",
        "x-client-ip",
        "true-client-ip",
        "cf-connecting-ip",
    ],
)
async def test_without_credentials_what_a_proxy_passes_on_is_refused(
    visitor: httpx.AsyncClient, header: str
) -> None:
    answer = await visitor.get("/api/queues", headers={header: "for=127.0.0.1"})
    assert (answer.status_code, code(answer)) == (403, "closed")


async def test_without_credentials_an_old_proxy_is_refused(app: Windlass) -> None:
    """Some pass everything on as HTTP/1.0, under a host name of their own, and say nothing of it."""
    web = app.web()

    async def older(scope: Any, receive: Any, send: Any) -> None:
        await web(scope | {"http_version": "1.0"}, receive, send)

    transport = httpx.ASGITransport(app=older, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as visitor:
        answer = await visitor.get("/api/queues")
        assert (answer.status_code, code(answer)) == (403, "closed")
        assert (await visitor.get("/healthz")).status_code == 200


@pytest.mark.parametrize("how", [basic, bearer])
async def test_credentials_give_their_role(app: Windlass, how: Any) -> None:
    async with visiting(app, client="10.0.0.7", **KEYS) as visitor:
        looked = await visitor.get("/api/queues", headers=how(READ))
        acted = await visitor.put("/api/queues/mail", json={}, headers=how(READ))
        operated = await visitor.put("/api/queues/mail", json={}, headers=how(OPERATE))
    assert (looked.status_code, acted.status_code, operated.status_code) == (200, 403, 200)
    assert code(acted) == "forbidden"


async def test_without_them_there_is_a_challenge(app: Windlass) -> None:
    async with visiting(app, **KEYS) as visitor:
        answer = await visitor.get("/api/queues")
    assert (answer.status_code, code(answer)) == (401, "unauthenticated")
    assert answer.headers.get_list("www-authenticate")[0].startswith("Basic ")


@pytest.mark.parametrize(
    "header",
    [
        "Basic !!!",
        "Basic dmlld2VyOndyb25n",
        "Bearer wrong",
        "Bearer viewer:look-at-this",
        "Digest x",
        "Bearer",
        "Basic \udcff",
    ],
)
async def test_wrong_credentials_are_refused(app: Windlass, header: str) -> None:
    async with visiting(app, **KEYS) as visitor:
        answer = await visitor.get(
            "/api/queues", headers=[(b"authorization", header.encode(errors="replace"))]
        )
    assert answer.status_code == 401


async def test_who_guesses_is_slowed_and_who_is_right_never(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much is guessed from an address, say that of a proxy, the right secret passes at once."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("windlass.web.guard.sleep", sleep)
    async with visiting(app, **KEYS) as visitor:
        for _ in range(GUESSES):
            assert (await visitor.get("/api/queues", headers=bearer("x:wrong"))).status_code == 401
        assert waited == []
        refused = await visitor.get("/api/queues", headers=bearer("x:wrong again"))
        assert waited == [SLOWED]
        assert (refused.status_code, code(refused)) == (429, "too_many_attempts")
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        for right in (bearer(READ), basic(OPERATE), bearer(OPERATE)):
            assert (await visitor.get("/api/queues", headers=right)).status_code == 200
        assert waited == [SLOWED]


async def test_guesses_at_one_name_are_not_another_ones(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.web.guard.sleep", lambda _: asyncio.sleep(0))
    async with visiting(app, **KEYS) as visitor:

        async def status(pair: str) -> int:
            return (await visitor.get("/api/queues", headers=basic(pair))).status_code

        assert {await status("viewer:wrong") for _ in range(GUESSES)} == {401}
        assert await status("viewer:wrong") == 429
        assert await status("driver:mistyped") == 401
        # Names that nobody has are one: whoever makes them up is slowed as well.
        assert {await status(f"nobody-{n}:wrong") for n in range(GUESSES)} == {401}
        assert await status("nobody-at-all:wrong") == 429


@pytest.mark.parametrize(
    "pair",
    [
        "no-colon-here",
        ":only-a-secret",
        "name:short",
        "name:geheimnis-ü",
        "name:tab\tinside",
        "name: spaces-around ",
    ],
)
def test_a_credential_that_protects_nothing_is_refused(app: Windlass, pair: str) -> None:
    with pytest.raises(ConfigurationError, match="name:secret") as caught:
        app.web(read=[pair])
    assert pair not in str(caught.value)


def test_secrets_are_never_shown() -> None:
    settings = Windlass("memory://", web_read=READ, web_operate=[OPERATE]).settings
    assert settings.web_operate == (OPERATE,)
    assert "look-at-this" not in repr(settings)
    assert "do-as-i-say" not in str(settings)


async def test_an_app_around_it_may_say_who_asks(app: Windlass) -> None:
    async def authorize(request: Request) -> Who | None:
        name = request.headers.get("x-user")
        return Who(name, Role.READ) if name else None

    async with visiting(app, client="10.0.0.7", authorize=authorize) as visitor:
        assert (await visitor.get("/api/queues")).status_code == 403
        assert (await visitor.get("/api/queues", headers={"x-user": "ada"})).status_code == 200
        assert (await visitor.put("/api/queues/a", json={}, headers={"x-user": "ada"})).status_code == 403


# -- from where ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hosts", "host", "status"),
    [
        ([], "localhost:8470", 200),
        ([], "127.0.0.1", 200),
        ([], "[::1]:8470", 200),
        ([], "LOCALHOST", 200),
        ([], "evil.example", 421),
        ([], "10.0.0.7", 421),
        ([], "localhost.evil.example", 421),
        ([], "localhost@evil.example", 421),
        ([], "[::1", 421),
        (["ops.example.com"], "ops.example.com:443", 200),
        (["ops.example.com"], "x.ops.example.com", 421),
        ([".example.com"], "x.ops.example.com", 200),
        (["*"], "whatever", 200),
    ],
)
async def test_only_its_own_host_names_are_answered_for(
    app: Windlass, hosts: list[str], host: str, status: int
) -> None:
    async with visiting(app, hosts=hosts) as visitor:
        answer = await visitor.get("/api/queues", headers={"host": host})
    assert answer.status_code == status
    if status == 421:
        assert "--allow-host" in answer.json()["error"]["message"]


async def test_with_credentials_any_number_will_do_as_a_host(app: Windlass) -> None:
    """A scraper calls a pod by its address, and no stranger's name can stand for a number."""
    async with visiting(app, headers=bearer(READ), **KEYS) as visitor:
        assert (await visitor.get("/metrics", headers={"host": "10.1.2.3:8470"})).status_code == 200
        assert (await visitor.get("/metrics", headers={"host": "evil.example"})).status_code == 421


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://localhost"}, 200),
        ({"origin": "https://localhost"}, 200),
        ({"sec-fetch-site": "same-origin", "origin": "http://localhost"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://localhost:9999"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://[::1"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site", "origin": "http://localhost"}, 403),
    ],
)
async def test_another_sites_page_may_not_act(
    visitor: httpx.AsyncClient, headers: dict[str, str], status: int
) -> None:
    answer = await visitor.put("/api/queues/mail", json={}, headers=headers)
    assert answer.status_code == status
    looked = await visitor.get("/api/queues", headers=headers)
    assert looked.status_code == 200  # the browser keeps the answer from that page


async def test_a_token_from_another_sites_page_does_not_help(app: Windlass) -> None:
    async with visiting(app, headers=bearer(OPERATE), **KEYS) as visitor:
        assert (await visitor.put("/api/queues/a", json={})).status_code == 200
        elsewhere = await visitor.put("/api/queues/a", json={}, headers={"origin": "http://evil.example"})
    assert (elsewhere.status_code, code(elsewhere)) == (403, "cross_origin")


async def test_it_answers_under_any_prefix(app: Windlass) -> None:
    outer = Starlette(routes=[Mount("/ops/windlass", app.web())])
    transport = httpx.ASGITransport(app=outer, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost/ops/windlass") as visitor:
        assert (await visitor.post("/api/jobs", json={"task": "a"})).status_code == 201
        assert (await visitor.get("/api/jobs")).json()["jobs"][0]["task"] == "a"
        document = (await visitor.get("/api/openapi.json")).json()
        assert document["servers"] == [{"url": "/ops/windlass"}]
        assert (await visitor.get("/healthz")).status_code == 200
        page = await visitor.get("/jobs")
        assert 'href="/ops/windlass/' in page.text


async def test_what_nobody_is_behind_is_told_in_a_line(visitor: httpx.AsyncClient) -> None:
    for path in ("/healthz", "/readyz"):
        answer = await visitor.post(path, headers={"host": "evil.example"})
        assert (answer.status_code, set(answer.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})
        assert answer.headers["content-type"].startswith("text/plain")
        assert len(answer.content) < 200


async def test_an_address_is_what_it_is(visitor: httpx.AsyncClient) -> None:
    """Nothing is guessed: no redirect, which would carry on whatever host was named, and no other's 404."""
    for path in ("/jobs/", "/healthz/", "/queues//"):
        assert (await visitor.get(path)).status_code == 404
    page, api = await visitor.get("/apifoo"), await visitor.get("/api")
    assert page.headers["content-type"].startswith("text/html")
    assert (api.status_code, code(api)) == (404, "not_found")


# -- with what and for how long -----------------------------------------------------------------------------


async def test_every_answer_carries_the_headers(visitor: httpx.AsyncClient) -> None:
    for path in ("/api/queues", "/api/nothing", "/nothing", "/", "/healthz", "/metrics"):
        headers = (await visitor.get(path)).headers
        assert headers["content-security-policy"] == CSP
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
    refused = await visitor.get("/", headers={"host": "evil.example"})
    assert refused.headers["content-security-policy"] == CSP


async def test_a_long_body_is_refused(app: Windlass) -> None:
    from windlass.web.app import make_web

    web = make_web(app, max_body=1000)
    transport = httpx.ASGITransport(app=web, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as visitor:

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(20):
                yield b" " * 100

        said = await visitor.post("/api/jobs", json={"task": "a", "args": ["x" * 1000]})
        unsaid = await visitor.post("/api/jobs", content=pieces())
    assert (said.status_code, unsaid.status_code) == (413, 413)
    assert code(said) == code(unsaid) == "too_large"


class Slow(MemoryStore):
    """A store that does not answer, and knows who has stopped waiting for it."""

    def __init__(self) -> None:
        super().__init__()
        self.given_up = asyncio.Event()

    async def queues(self) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            self.given_up.set()


async def test_what_takes_too_long_is_given_up() -> None:
    store = Slow()
    with Windlass(store=store) as app:
        async with visiting(app, timeout=0.05) as visitor:
            answer = await visitor.post("/api/queues/mail/pause")
            assert (answer.status_code, code(answer)) == (503, "timeout")
            assert int(answer.headers["retry-after"]) >= 1
            assert "idempotency_key" in answer.json()["error"]["message"]
            assert store.given_up.is_set()
            page = await visitor.get("/api/queues")  # the next one is served
            assert page.status_code == 200
