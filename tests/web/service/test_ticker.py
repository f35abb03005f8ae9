"""Ticks for those who watch."""

import json

from tests.web.kit import rigged
from windlass import Windlass
from windlass.store.records import NewSchedule
from windlass.web.http.answers import encode
from windlass.web.service.service import Service
from windlass.web.service.ticker import Tick, Ticker


async def tick(ticker: Ticker) -> Tick:
    """The next one."""
    ticker.join()
    try:
        await ticker.after(ticker.number)
    finally:
        ticker.leave()
    assert isinstance(ticker.last, Tick), ticker.last
    return ticker.last


async def test_numbers_beyond_64_bits_are_no_trouble(app: Windlass) -> None:
    async with rigged(app) as rig:
        payload = json.dumps({"n": 2**70})
        await rig.store.seed_schedule(
            NewSchedule(name="big", cron="0 0 * * *", task="t", payload=payload), None
        )
    assert encode(await tick(Ticker(Service(app))))


async def test_who_comes_later_is_told_how_it_is_now(app: Windlass) -> None:
    """Nobody watched in between, so nobody looked."""
    service = Service(app)
    ticker = Ticker(service)
    assert (await tick(ticker)).ready == 0
    async with rigged(app) as rig:
        await rig.add("a")
    service.store.cache.clear()
    assert (await tick(ticker)).ready == 1
