"""Words that stand beside each other on a page have a space between them: a line that ends with a block tag
loses its line break [M3]."""

import httpx

from tests.web.kit import rigged
from tests.web.pages.kit import Html
from windlass import Windlass
from windlass.store.records import NewSchedule


async def test_a_worker_s_queues_stand_apart_from_their_slots(
    app: Windlass, visitor: httpx.AsyncClient
) -> None:
    async with rigged(app) as rig:
        worker = await rig.worker("mail", "reports")
        term = await rig.store.lead(worker, 30.0)
        assert term is not None
        await rig.store.assign(term, {worker: {"mail": 4, "reports": 2}})
    assert "mail 4, reports 2" in Html((await visitor.get("/workers")).text).text


async def test_a_budget_stands_apart_from_its_key(app: Windlass, visitor: httpx.AsyncClient) -> None:
    async with rigged(app) as rig:
        await rig.store.set_budget("upstream", {"rate": 5.0, "burst": 10, "key": "tenant"})
    assert "upstream by tenant" in Html((await visitor.get("/budgets")).text).text


async def test_a_schedule_s_last_time_stands_apart_from_its_job(
    app: Windlass, visitor: httpx.AsyncClient
) -> None:
    async with rigged(app) as rig:
        new = NewSchedule(name="nightly", cron="0 3 * * *", task="t", payload="{}")
        await rig.store.seed_schedule(new, await rig.store.now() + 600)
    fired = await visitor.post("/schedules/nightly", data={"do": "run"})
    job = fired.headers["location"].removeprefix("/jobs/").partition("?")[0]
    shown = Html((await visitor.get("/schedules")).text).text
    assert f" {job}" in shown


async def test_a_job_s_tags_stand_apart_from_what_it_is_about(
    app: Windlass, visitor: httpx.AsyncClient
) -> None:
    async with rigged(app) as rig:
        await rig.add("t", payload='{"to":"ada"}', tags=("eu",))
    shown = Html((await visitor.get("/jobs")).text).text
    assert 'eu {"to' in shown
