"""Who is let in, from where, with what and for how long [M5]."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from tests.web.kit import OPERATE, READ, basic, bearer, visiting
from windlass import Windlass
from windlass.errors import ConfigurationError
from windlass.store.sqlite import SQLiteStore
from windlass.web import Principal, Role
from windlass.web.http.answers import CSP
from windlass.web.http.login_throttle import DELAY, MAX_DELAYED, MAX_FAILURES

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

    monkeypatch.setattr("windlass.web.http.login_throttle.sleep", sleep)
    async with visiting(app, **KEYS) as visitor:
        for _ in range(MAX_FAILURES):
            assert (await visitor.get("/api/queues", headers=bearer("x:wrong"))).status_code == 401
        assert waited == []
        refused = await visitor.get("/api/queues", headers=bearer("x:wrong again"))
        assert waited == [DELAY]
        assert (refused.status_code, code(refused)) == (429, "too_many_attempts")
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        for right in (bearer(READ), basic(OPERATE), bearer(OPERATE)):
            assert (await visitor.get("/api/queues", headers=right)).status_code == 200
        assert waited == [DELAY]


def guessing(app: Windlass, **options: Any) -> Callable[[str, str], Coroutine[Any, Any, int]]:
    """How a pair that is sent from an address is answered."""
    web = app.web(**KEYS, **options)

    async def status(address: str, pair: str) -> int:
        transport = httpx.ASGITransport(app=web, client=(address, 4711))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as visitor:
            return (await visitor.get("/api/queues", headers=basic(pair))).status_code

    return status


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong answers are held back for no time at all."""
    monkeypatch.setattr("windlass.web.http.login_throttle.sleep", lambda _: asyncio.sleep(0))


@pytest.mark.parametrize("name", ["viewer", "driver", "nobody", ""])
async def test_answers_do_not_tell_which_names_there_are(app: Windlass, no_waiting: None, name: str) -> None:
    """[M5] Names that somebody has were counted each, all others together: once these were throttled, a 401
    instead of a 429 told that there was somebody of that name."""
    status = guessing(app)
    for n in range(MAX_FAILURES):
        assert await status("10.0.0.1", f"made-up-{n}:wrong") == 401
    assert await status("10.0.0.1", "made-up:wrong") == 429
    assert await status("10.0.0.1", f"{name}:wrong") == 429
    # And from elsewhere, each from an address of its own: a name has its own count, whoever has it.
    answers = [await status(f"10.0.1.{n}", f"{name}:wrong") for n in range(MAX_FAILURES)]
    assert answers == [401] * (MAX_FAILURES - 1) + [429]


async def test_guesses_are_throttled_in_all(
    app: Windlass, no_waiting: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[M5] However many addresses and names they come from."""
    monkeypatch.setattr("windlass.web.http.login_throttle.MAX_ALL_FAILURES", 20)
    status = guessing(app)
    answers = [await status(f"10.0.0.{n}", f"name-{n}:wrong") for n in range(25)]
    assert answers == [401] * 20 + [429] * 5
    assert await status("10.0.0.1", OPERATE) == 200


async def test_a_network_of_ipv6_is_one_address(app: Windlass, no_waiting: None) -> None:
    """[M5] Whoever has one address there has 2 to the 64th."""
    status = guessing(app)
    assert {await status(f"2001:db8::{n}", f"a{n}:wrong") for n in range(MAX_FAILURES)} == {401}
    assert await status("2001:db8::ffff:1", "b:wrong") == 429
    assert await status("2001:db8:0:1::1", "c:wrong") == 401


async def test_of_who_guesses_too_often_only_some_are_looked_at(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[M5] So that they do not go through secrets on many connections at once. Others are let in meanwhile,
    and so is whoever has come from there before."""
    held, enough = asyncio.Event(), asyncio.Event()
    waiting = 0

    async def sleep(_: float) -> None:
        nonlocal waiting
        waiting += 1
        if waiting == MAX_DELAYED:
            enough.set()
        await held.wait()

    monkeypatch.setattr("windlass.web.http.login_throttle.sleep", sleep)
    status = guessing(app)
    assert await status("10.0.0.1", READ) == 200
    for _ in range(MAX_FAILURES):
        assert await status("10.0.0.1", "a:wrong") == 401
    guesses = [asyncio.create_task(status("10.0.0.1", f"a:wrong-{n}")) for n in range(MAX_DELAYED)]
    await enough.wait()
    assert await status("10.0.0.1", OPERATE) == 429  # not looked at
    assert await status("10.0.0.1", READ) == 200
    assert await status("10.0.0.2", OPERATE) == 200
    held.set()
    assert set(await asyncio.gather(*guesses)) == {429}
    assert await status("10.0.0.1", OPERATE) == 200


async def test_logins_that_fail_are_logged_and_counted(
    app: Windlass, no_waiting: None, caplog: pytest.LogCaptureFixture
) -> None:
    """[M5] With the address, and without anything that may be a secret."""
    async with visiting(app, client="10.0.0.7", **KEYS) as visitor:
        assert (await visitor.get("/")).status_code == 401  # nothing was tried yet
        with caplog.at_level(logging.WARNING, "windlass.web"):
            for pair in ("viewer:hunter2-hunter2", "hunter3-hunter3:oops"):
                assert (await visitor.get("/", headers=basic(pair))).status_code == 401
            for _ in range(MAX_FAILURES):
                await visitor.get("/", headers=basic("viewer:hunter2-hunter2"))
        messages = [record.getMessage() for record in caplog.records if record.name == "windlass.web"]
        assert "wrong credentials for 'viewer', from 10.0.0.7" in messages[0]
        assert "an unknown name, from 10.0.0.7" in messages[1]
        assert "throttled" in messages[-1]
        assert "hunter" not in "".join(messages)
        metrics = (await visitor.get("/metrics", headers=bearer(READ))).text
    assert 'windlass_logins_refused_total{reason="wrong"} 10.0' in metrics
    assert 'windlass_logins_refused_total{reason="throttled"} 2.0' in metrics


async def test_who_is_not_let_in_does_not_keep_the_connection(app: Windlass) -> None:
    """[M5] [fault 34] A stranger held a connection for half a minute after each 401."""
    async with visiting(app, **KEYS) as visitor:
        for headers in ({}, bearer("x:wrong"), {"host": "evil.example"}):
            assert (await visitor.get("/api/queues", headers=headers)).headers["connection"] == "close"
        assert "connection" not in (await visitor.get("/api/queues", headers=bearer(READ))).headers


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
    settings = Windlass("sqlite:///:memory:", web_read=READ, web_operate=[OPERATE]).settings
    assert settings.web_operate == (OPERATE,)
    assert "look-at-this" not in repr(settings)
    assert "do-as-i-say" not in str(settings)


async def test_an_app_around_it_may_say_who_asks(app: Windlass) -> None:
    async def authorize(request: Request) -> Principal | None:
        name = request.headers.get("x-user")
        return Principal(name, Role.READ) if name else None

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


@pytest.mark.parametrize("name", ["windlass-web.shop.svc", "windlass-web.shop.svc:8470", "web.cluster.local"])
async def test_metrics_alone_are_served_at_the_names_of_a_cluster(name: str) -> None:
    """[M5] By these names, nothing else: a name that a stranger can point here reads no jobs."""
    with Windlass("sqlite:///:memory:", metrics_hosts=["windlass-web.shop.svc", ".cluster.local"]) as app:
        async with visiting(app, headers=bearer(READ), **KEYS) as visitor:
            statuses = {
                path: (await visitor.get(path, headers={"host": name})).status_code
                for path in ("/metrics", "/api/queues", "/", "/metrics/", "/api/openapi.json")
            }
            assert statuses.pop("/metrics") == 200
            assert set(statuses.values()) == {421}
            stranger = await visitor.get("/metrics", headers={"host": "evil.example"})
            assert (stranger.status_code, "WINDLASS_METRICS_HOSTS" in stranger.text) == (421, True)
        async with visiting(app, client="10.0.0.7") as nobody:
            assert (await nobody.get("/metrics", headers={"host": name})).status_code == 403


async def test_who_names_no_host_is_answered_where_any_will_do(app: Windlass) -> None:
    for hosts, status in ((["*"], 200), ([], 421)):
        async with visiting(app, hosts=hosts) as visitor:
            request = visitor.build_request("PUT", "/api/queues/mail", json={})
            del request.headers["host"]
            assert (await visitor.send(request)).status_code == status


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
        ({"origin": "https://localhost"}, 403),
        ({"origin": "localhost"}, 403),
        ({"origin": "https://localhost", "sec-fetch-site": "same-origin"}, 200),
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


@pytest.mark.parametrize(
    ("hosts", "text", "origin", "status"),
    [
        (["ops.example.com"], None, "http://ops.example.com", 200),
        (["ops.example.com"], None, "https://ops.example.com", 403),
        (["ops.example.com"], "https", "https://ops.example.com", 200),
        (["ops.example.com"], "https, http", "https://ops.example.com", 200),
        (["ops.example.com"], "https", "http://ops.example.com", 403),
        (["https://ops.example.com"], None, "https://ops.example.com", 200),
        (["https://ops.example.com"], None, "http://ops.example.com", 403),
        (["https://.example.com"], None, "https://ops.example.com", 200),
        (["https://*"], None, "https://ops.example.com", 200),
    ],
)
async def test_the_scheme_of_an_origin_counts(
    app: Windlass, hosts: list[str], text: str | None, origin: str, status: int
) -> None:
    """[M5] A page that somebody on the way has put at http:// is not the one at https://. Where TLS ends in
    front of us, either the proxy says so or the settings do."""
    headers = {**bearer(OPERATE), "host": "ops.example.com", "origin": origin}
    if text:
        headers["x-forwarded-proto"] = text
    async with visiting(app, hosts=hosts, **KEYS) as visitor:
        answer = await visitor.put("/api/queues/mail", json={}, headers=headers)
    assert answer.status_code == status
    if status == 403:
        assert "WINDLASS_WEB_HOSTS" in answer.json()["error"]["message"]


@pytest.mark.parametrize("name", ["host", "origin", "content-type"])
async def test_a_header_that_decides_is_said_once(visitor: httpx.AsyncClient, name: str) -> None:
    """[M5] Of two hosts a proxy may have gone by the first one, and we by the last."""
    value = {"host": "localhost", "origin": "http://localhost", "content-type": "application/json"}[name]
    headers = [(b"host", b"localhost")] if name != "host" else []
    headers += [(name.encode(), value.encode())] * 2
    answer = await visitor.put("/api/queues/mail", content=b"{}", headers=headers)
    assert (answer.status_code, code(answer)) == (400, "invalid")
    assert name in answer.json()["error"]["message"]


@pytest.mark.parametrize("kind", [None, "", " "])
async def test_a_body_of_no_kind_is_refused(visitor: httpx.AsyncClient, kind: str | None) -> None:
    """[M5] A page of another site may send one without that its browser asks us first."""
    headers = {} if kind is None else {"content-type": kind}
    for path in ("/api/jobs", "/queues/mail", "/api/queues/mail/pause"):
        answer = await visitor.post(path, content=b'{"task": "a"}', headers=headers)
        assert answer.status_code == 415, path
    assert (await visitor.post("/api/queues/mail/pause")).status_code in (200, 404)


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
        kind = {"content-type": "application/json"}
        unsaid = await visitor.post("/api/jobs", content=pieces(), headers=kind)
    assert (said.status_code, unsaid.status_code) == (413, 413)
    assert code(said) == code(unsaid) == "too_large"


class Slow(SQLiteStore):
    """A store that does not answer, and knows who has stopped waiting for it."""

    def __init__(self) -> None:
        super().__init__(":memory:")
        self.given_up = asyncio.Event()

    async def queues(self) -> Any:  # type: ignore[misc]
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
