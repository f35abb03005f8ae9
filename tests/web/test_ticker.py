"""Ticks: one area in trouble does not take the others with it [M3]."""

import json
from typing import Any

from tests.web.kit import rigged
from windlass import Windlass
from windlass.errors import StoreUnavailable
from windlass.store.flow import NewSchedule
from windlass.store.memory import MemoryStore
from windlass.web.answers import encode
from windlass.web.desk import Desk
from windlass.web.ticker import Tick, Ticker


async def tick(app: Windlass) -> Tick:
    ticker = Ticker(Desk(app), every=0.01)
    ticker.join()
    try:
        await ticker.after(0)
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
    told = await tick(app)
    assert len(told.marks["schedules"]) == 8
    assert encode(told)


class Halved(MemoryStore):
    """A store that cannot say which parents there are."""

    async def parents(self, *args: Any, **options: Any) -> Any:
        raise StoreUnavailable("gone")


async def test_an_area_in_trouble_leaves_the_others() -> None:
    with Windlass(store=Halved()) as app:
        told = await tick(app)
    assert told.marks["parents"] == "trouble"
    assert len(told.marks["budgets"]) == 8
