"""Addresses that send one signal: signed, good for a while, used once, and no login [W2] [M5]."""

import asyncio
import base64
import hashlib
import logging
import re
import time

import httpx
import pytest

from tests.web.api.test_signals import ODD, value_of, waiting
from tests.web.kit import OPERATE, READ, rigged, visiting
from windlass import Windlass
from windlass.errors import ConfigurationError, PayloadTooLarge
from windlass.handles import signal_links

SECRET = "s" * 32
BASE = "https://jobs.example.com"


@pytest.fixture
def app() -> Windlass:
    return Windlass("sqlite:///:memory:", secret=SECRET, web_read=[READ], web_operate=[OPERATE])


async def open_page(visitor: httpx.AsyncClient, url: str) -> httpx.Response:
    return await visitor.get(url, headers={"host": "jobs.example.com"})


async def press(visitor: httpx.AsyncClient, url: str) -> httpx.Response:
    return await visitor.post(url, headers={"host": "jobs.example.com", "sec-fetch-site": "cross-site"})


async def test_w2_opening_asks_and_the_button_sends_once(
    app: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with rigged(app) as rig, visiting(app, client="203.0.113.9") as visitor:
        id = await waiting(rig)
        url = app.signal_url(id, "approved", {"ok": True, "by": ODD}, base=BASE)
        assert url.startswith(f"{BASE}/signal/")
        for _ in range(3):
            page = await open_page(visitor, url)
            assert page.status_code == 200
            assert "<script" not in page.text
            assert "<b>{&quot;ok&quot;:true" in page.text
            assert page.headers["cache-control"] == "no-store"
            assert page.headers["referrer-policy"] == "no-referrer"
            (style,) = re.findall("<style>(.*?)</style>", page.text)
            digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
            assert f"style-src 'sha256-{digest}';" in page.headers["content-security-policy"]
        assert [each.job for each in await rig.store.waits()] == [id]
        assert (await press(visitor, url)).status_code == 200
        assert await value_of(rig, id) == {"ok": True, "by": ODD}
        again = await press(visitor, url)
        assert (again.status_code, "used before" in again.text) == (410, True)
        token = url.rpartition("/")[2]
        ours = [
            each.getMessage() for each in caplog.records if not each.name.startswith(("httpx", "httpcore"))
        ]
        assert all(token not in message for message in ours)


@pytest.mark.parametrize("change", ["value", "signature", "cut", "nothing", "long"])
async def test_w2_a_changed_address_says_no_more_than_that(app: Windlass, change: str) -> None:
    async with rigged(app) as rig, visiting(app) as visitor:
        id = await waiting(rig)
        url = app.signal_url(id, "approved", "yes", base=BASE)
        body, _, signature = url.rpartition("/")[2].partition(".")
        other = app.signal_url(id, "approved", "no", base=BASE).rpartition("/")[2].partition(".")[0]
        token = {
            "value": f"{other}.{signature}",
            "signature": f"{body}.{signature[:-4]}AAAA",
            "cut": body,
            "nothing": "x",
            "long": "x" * 5000,
        }[change]
        for answer in (
            await open_page(visitor, f"/signal/{token}"),
            await press(visitor, f"/signal/{token}"),
        ):
            assert answer.status_code == 404
        assert [each.job for each in await rig.store.waits()] == [id]


async def test_w2_another_secret_and_none_open_nothing(app: Windlass) -> None:
    url = app.signal_url(5, "go", base=BASE)
    for other in (Windlass("sqlite:///:memory:", secret="t" * 32), Windlass("sqlite:///:memory:")):
        async with visiting(other) as visitor:
            assert (await open_page(visitor, url)).status_code == 404


async def test_w2_an_expired_address_is_gone(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rigged(app) as rig, visiting(app) as visitor:
        id = await waiting(rig)
        url = app.signal_url(id, "approved", base=BASE, expires="1h")
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 3601)
        for answer in (await open_page(visitor, url), await press(visitor, url)):
            assert (answer.status_code, "expired" in answer.text) == (410, True)


async def test_w2_a_job_that_has_ended_or_gone_takes_no_answer(app: Windlass) -> None:
    async with rigged(app) as rig, visiting(app) as visitor:
        id = await waiting(rig)
        urls = [app.signal_url(each, "approved", base=BASE) for each in (id, id + 12345)]
        await rig.store.cancel([id])
        for url in urls:
            answer = await press(visitor, url)
            assert (answer.status_code, "Nobody waits" in answer.text) == (410, True)


async def test_w2_an_answer_that_does_not_fit_is_not_sent(app: Windlass) -> None:
    async with rigged(app) as rig, visiting(app) as visitor:
        id = await waiting(rig, shape={"type": "object", "required": ["ok"]})
        answer = await press(visitor, app.signal_url(id, "approved", {}, base=BASE))
        assert (answer.status_code, "does not fit" in answer.text) == (409, True)
        assert [each.job for each in await rig.store.waits()] == [id]
        assert (await press(visitor, app.signal_url(id, "approved", {"ok": 1}, base=BASE))).status_code == 200


async def test_m5_w2_who_guesses_is_slowed(app: Windlass) -> None:
    async with rigged(app) as rig, visiting(app) as visitor:
        id = await waiting(rig)
        answers = [(await press(visitor, f"/signal/guess{no}")).status_code for no in range(11)]
        assert answers == [404] * 10 + [429]
        wrong = [asyncio.create_task(press(visitor, f"/signal/more{no}")) for no in range(20)]
        await asyncio.wait(wrong, return_when=asyncio.FIRST_COMPLETED)  # so many wait that it is not delayed
        good = await press(visitor, app.signal_url(id, "approved", base=BASE))
        assert good.status_code == 200, "right ones are taken meanwhile"
        assert {answer.status_code for answer in await asyncio.gather(*wrong)} == {429}


async def test_w2_nothing_else_is_open(app: Windlass) -> None:
    async with visiting(app, client="203.0.113.9") as visitor:
        for path in ("/", "/waits", "/signal", "/api/waits", "/api/jobs"):
            assert (await visitor.get(path)).status_code == 401, path


async def test_w2_what_cannot_be_an_address_is_refused(app: Windlass) -> None:
    with pytest.raises(ConfigurationError, match="WINDLASS_SECRET"):
        Windlass("sqlite:///:memory:").signal_url(1, "go", base=BASE)
    with pytest.raises(ConfigurationError, match="32 characters"):
        _ = Windlass("sqlite:///:memory:", secret="x" * 5).settings
    with pytest.raises(ConfigurationError, match="base="):
        app.signal_url(1, "go", base="jobs.example.com")
    with pytest.raises(PayloadTooLarge):
        app.signal_url(1, "go", "x" * 2000, base=BASE)
    assert SECRET not in repr(app.settings)


def test_w2_every_address_is_another_and_says_what_it_sends() -> None:
    first, second = (signal_links.make(SECRET, 7, "go", '"é"', 5.0) for _ in range(2))
    assert first != second
    assert re.fullmatch(r"[\w.-]+", first)
    link = signal_links.read(SECRET, first)
    assert link is not None
    assert (link.job, link.name, link.value, link.expires) == (7, "go", '"é"', 5.0)
