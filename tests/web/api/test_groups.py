"""Groups over HTTP and on the page of the job that ends one [W4] [M5]."""

from typing import Any

import httpx

from tests.web.kit import visiting
from windlass import Windlass


async def opened(app: Windlass) -> Any:
    group = await app.aopen_group("<b>nightly</b>")
    await group.aenqueue_many(app.named("t"), [(), (), ()])
    await group.aenqueue(app.named("t").using(delay="1h"))
    return group


async def get(visitor: httpx.AsyncClient, path: str) -> Any:
    answer = await visitor.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_group_is_shown_closed_and_cancelled(any_app: Windlass) -> None:
    async with any_app, visiting(any_app) as visitor:
        group = await opened(any_app)
        shown = await get(visitor, f"/api/groups/{group.id}")
        assert (shown["id"], shown["state"], shown["total"]) == (str(group.id), "scheduled", 4)
        assert sum(shown["counts"].values()) == 4
        assert shown["reason"] == "its group is open for more jobs"
        first, *rest = (await get(visitor, f"/api/groups/{group.id}/jobs"))["jobs"]
        after = await get(visitor, f"/api/groups/{group.id}/jobs?after={first}&limit=2")
        assert after["jobs"] == rest[:2]
        closed = [(await visitor.post(f"/api/groups/{group.id}/close")).json()["closed"] for _ in range(2)]
        assert closed == [True, False]
        assert (await visitor.post(f"/api/groups/{group.id}/cancel")).json() == {"cancelled": 4}
        assert (await get(visitor, f"/api/jobs/{group.id}"))["group"]["counts"] == {"cancelled": 4}
        events = (await get(visitor, f"/api/jobs/{group.id}"))["timeline"]
        texts = [event["text"] for event in events]
        assert (texts.count("closed its group"), texts.count("cancelled its group")) == (1, 1)
        for after in (-1, 1 << 63, 10**30):
            beyond = await visitor.get(f"/api/groups/{group.id}/jobs?after={after}")
            assert (beyond.status_code, beyond.json()["error"]["field"]) == (400, "after")
        alone = await any_app.aenqueue("t")
        assert (await visitor.get(f"/api/groups/{alone.id}")).status_code == 404
        assert (await get(visitor, f"/api/jobs/{alone.id}"))["group"] is None


async def test_its_page_has_its_name_and_the_jobs_that_did_not_succeed(any_app: Windlass) -> None:
    """By hand it is closed or cancelled, and not run before its time, nor cancelled without its jobs."""
    async with any_app, visiting(any_app) as visitor:
        group = await opened(any_app)
        first, second, *_ = await group.ajobs()
        await first.acancel()
        page = (await visitor.get(f"/jobs/{group.id}")).text
        assert "&lt;b&gt;nightly&lt;/b&gt;" in page
        assert "<b>nightly" not in page
        shown = page.split('id="group"')[1].split("</section>")[0]
        assert shown.index(f"/jobs/{first.id}") < shown.index(f"/jobs/{second.id}")
        assert "Run now" not in page
        assert "Cancel the job" not in page
        assert (await get(visitor, f"/api/groups/{group.id}"))["name"] == "<b>nightly</b>"


async def test_of_many_jobs_its_page_gives_the_numbers(any_app: Windlass) -> None:
    async with any_app, visiting(any_app) as visitor:
        group = await any_app.aopen_group("many")
        await group.aenqueue_many(any_app.named("t"), [()] * 101)
        page = (await visitor.get(f"/jobs/{group.id}")).text
        assert "101 jobs" in page
        assert f"/jobs/{(await group.ajobs(limit=1))[0].id}" not in page


async def test_its_page_says_how_its_jobs_stand(any_app: Windlass) -> None:
    async with any_app, visiting(any_app) as visitor:
        group = await opened(any_app)
        page = (await visitor.get(f"/jobs/{group.id}")).text
        assert 'id="group"' in page
        assert "its group is open for more jobs" in page
        answer = await visitor.post(f"/jobs/{group.id}", data={"do": "close_group"})
        assert answer.status_code == 303
        assert "did=closed" in answer.headers["location"]
        answer = await visitor.post(f"/jobs/{group.id}", data={"do": "cancel_group"})
        assert "did=cancelled" in answer.headers["location"]
        assert await group.acounts() == {"cancelled": 4}
