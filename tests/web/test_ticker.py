"""Ticks for those who watch."""

import json

from tests.web.kit import rigged
from windlass import Windlass
from windlass.store.flow import NewSchedule
from windlass.web.answers import encode
from windlass.web.desk import Desk
from windlass.web.ticker import Tick, Ticker


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
    assert encode(await tick(Ticker(Desk(app))))


async def test_who_comes_later_is_told_how_it_is_now(app: Windlass) -> None:
    """Nobody watched in between, so nobody looked."""
    desk = Desk(app)
    ticker = Ticker(desk)
    assert (await tick(ticker)).ready == 0
    async with rigged(app) as rig:
        await rig.add("a")
    desk.memo.clear()
    assert (await tick(ticker)).ready == 1
