"""Jobs over HTTP: what is answered when it works, and what when it does not [E1] [E2] [E3] [E4] [O5] [O6]."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.conformance.kit import failure
from tests.web.kit import rigged, visiting
from windlass import Windlass
from windlass.core.states import Kind
from windlass.errors import StoreUnavailable
from windlass.store.sqlite import SQLiteStore


async def enqueued(visitor: httpx.AsyncClient, task: str = "mail.send", **fields: Any) -> str:
    answer = await visitor.post("/api/jobs", json={"task": task, **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def refused(visitor: httpx.AsyncClient, **fields: Any) -> tuple[int, str]:
    answer = await visitor.post("/api/jobs", json={"task": "mail.send", **fields})
    return answer.status_code, answer.json()["error"]["code"]


# -- enqueue ------------------------------------------------------------------------------------------------


async def test_a_job_is_enqueued_with_its_options(any_app: Windlass) -> None:
    async with any_app, visiting(any_app) as visitor:
        id = await enqueued(
            visitor,
            args=[1, "two"],
            kwargs={"three": [3.5, None]},
            queue="mail",
            priority="high",
            delay="5m",
            max_attempts=3,
            timeout=30,
            unique_key="u",
            fair_key="f",
            tags=["a", "b"],
            headers={"x": "y"},
        )
        job = (await visitor.get(f"/api/jobs/{id}")).json()
        assert job["payload"] == {"*": [1, "two"], "three": [3.5, None]}
        kept = ("queue", "priority", "state", "max_attempts", "timeout", "unique_key", "fair_key", "tags")
        assert [job[name] for name in kept] == ["mail", "high", "scheduled", 3, 30.0, "u", "f", ["a", "b"]]
        assert [event["kind"] for event in job["timeline"]] == ["enqueued"]
        assert job["why"].startswith("due in 4 min")
        twin = await visitor.post("/api/jobs", json={"task": "mail.send", "queue": "mail", "unique_key": "u"})
        assert (twin.status_code, twin.json()) == (201, {"id": id, "status": "skipped", "pressure": None})


async def test_e5_without_a_queue_it_goes_where_live_workers_say(any_app: Windlass) -> None:
    async with any_app, visiting(any_app) as visitor, rigged(any_app) as rig:
        await rig.worker("mail", tasks={"mail.send": "mail"})
        one = await enqueued(visitor)
        jobs = [{"task": "mail.send"}, {"task": "mail.send", "queue": "own"}, {"task": "no.such"}]
        answer = (await visitor.post("/api/jobs/batch", json={"jobs": jobs})).json()["jobs"]
        ids = [one, *(receipt["id"] for receipt in answer)]
        queues = [(await visitor.get(f"/api/jobs/{id}")).json()["queue"] for id in ids]
    assert queues == ["mail", "mail", "own", "default"]


async def test_many_are_enqueued_in_order_all_or_none(any_app: Windlass) -> None:
    async with any_app, visiting(any_app) as visitor:
        jobs = [{"task": f"t{n}", "kwargs": {"n": n}} for n in range(50)]
        answer = await visitor.post("/api/jobs/batch", json={"jobs": jobs})
        assert answer.status_code == 201
        ids = [receipt["id"] for receipt in answer.json()["jobs"]]
        listed = (await visitor.get("/api/jobs")).json()["jobs"]
        assert {job["id"]: job["task"] for job in listed} == {id: f"t{n}" for n, id in enumerate(ids)}
        wrong = await visitor.post("/api/jobs/batch", json={"jobs": [{"task": "a"}, {"task": "No Name"}]})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "invalid_name")
        assert wrong.json()["error"]["message"].startswith("jobs[1]:")
        assert len((await visitor.get("/api/jobs")).json()["jobs"]) == 50


async def test_a_job_may_wait_for_others_and_for_a_time(visitor: httpx.AsyncClient) -> None:
    first = await enqueued(visitor)
    second = await enqueued(visitor, after=[first], otherwise="cancel")
    job = (await visitor.get(f"/api/jobs/{second}")).json()
    assert (job["after"], job["otherwise"]) == ([first], "cancel")
    moment = datetime.now(UTC) + timedelta(hours=1)
    third = await enqueued(visitor, run_at=moment.isoformat())
    assert (await visitor.get(f"/api/jobs/{third}")).json()["run_at"][:16] == moment.isoformat()[:16]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"task": "Not A Name"}, "invalid_name"),
        ({"queue": "UPPER"}, "invalid_name"),
        ({"priority": "huge"}, "invalid_option"),
        ({"priority": 7}, "invalid_option"),
        ({"delay": "soon"}, "invalid_option"),
        ({"delay": -1}, "invalid_option"),
        ({"delay": 1, "run_at": 1}, "invalid_option"),
        ({"run_at": "tomorrow"}, "invalid_option"),
        ({"run_at": "2026-01-01T00:00:00"}, "invalid_option"),
        ({"run_at": 1e18}, "invalid_option"),
        ({"max_attempts": 0}, "invalid_option"),
        ({"max_attempts": 10**30}, "invalid_option"),
        ({"unique_key": ""}, "invalid_option"),
        ({"unique_key": "x" * 256}, "invalid_option"),
        ({"idempotency_key": "a\0b"}, "invalid_option"),
        ({"after": ["x"]}, "invalid"),
        ({"after": ["0"]}, "invalid_option"),
        ({"tags": ["x" * 65]}, "invalid_option"),
        ({"on_conflict": "fight"}, "invalid"),
        ({"headers": {"a": 1}}, "invalid"),
        ({"kwargs": {"a": "nul \0"}}, "invalid_payload"),
        ({"kwargs": {"*": 1}}, "invalid_arguments"),
        ({"kwargs": []}, "invalid"),
        ({"colour": "red"}, "invalid"),
    ],
)
async def test_what_makes_no_sense_is_refused_and_nothing_is_written(
    visitor: httpx.AsyncClient, fields: dict[str, Any], code: str
) -> None:
    assert await refused(visitor, **fields) == (400, code)
    assert (await visitor.get("/api/jobs")).json()["jobs"] == []


async def test_arguments_are_checked_where_the_task_is_known(app: Windlass) -> None:
    @app.task(name="mail.send")
    async def send(to: str, copies: int = 1) -> None: ...

    async with visiting(app) as visitor:
        assert await refused(visitor, kwargs={"to": 3}) == (400, "invalid_arguments")
        assert await refused(visitor, args=["a", 1, 2]) == (400, "invalid_arguments")
        answer = await visitor.post("/api/jobs", json={"task": "mail.send", "kwargs": {"to": 3}})
        assert "'to'" in answer.json()["error"]["message"]
        await enqueued(visitor, args=["a"])


@pytest.mark.parametrize("body", [b"", b"{", b"null", b"[]", b'"x"', b"\xff", b'{"task": 1}', b"[" * 100_000])
async def test_a_body_that_is_no_job_is_refused(visitor: httpx.AsyncClient, body: bytes) -> None:
    answer = await visitor.post("/api/jobs", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid")


async def test_a_form_is_no_body(visitor: httpx.AsyncClient) -> None:
    """Another site's page could send one without asking first."""
    answer = await visitor.post("/api/jobs", data={"task": "a"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported")


async def test_a_payload_may_be_too_large(visitor: httpx.AsyncClient) -> None:
    assert await refused(visitor, kwargs={"x": "y" * 1_100_000}) == (413, "payload_too_large")


async def test_a_key_that_is_held_is_a_conflict(visitor: httpx.AsyncClient) -> None:
    await enqueued(visitor, unique_key="u")
    assert await refused(visitor, unique_key="u", on_conflict="reject") == (409, "already_enqueued")


async def test_an_unknown_job_cannot_be_waited_for(visitor: httpx.AsyncClient) -> None:
    assert await refused(visitor, after=["4711"]) == (404, "not_found")


async def test_a_thousand_and_one_are_too_many(visitor: httpx.AsyncClient) -> None:
    answer = await visitor.post("/api/jobs/batch", json={"jobs": [{"task": "a"}] * 1001})
    assert answer.status_code == 400
    assert (await visitor.post("/api/jobs/batch", json={"jobs": []})).status_code == 400


# -- looking ------------------------------------------------------------------------------------------------


async def test_cursors_walk_through_everything_once(any_app: Windlass) -> None:
    async with any_app, visiting(any_app) as visitor:
        jobs = [{"task": f"t{n % 2}", "kwargs": {"n": n}} for n in range(25)]
        await visitor.post("/api/jobs/batch", json={"jobs": jobs})
        found, cursor = [], None
        for _ in range(30):
            query = {"limit": "4", "task": "t0"} | ({"cursor": cursor} if cursor else {})
            page = (await visitor.get("/api/jobs", params=query)).json()
            assert len(page["jobs"]) <= 4
            found += [job["payload"]["n"] for job in page["jobs"]]
            cursor = page["cursor"]
            if cursor is None:
                break
        assert sorted(found, reverse=True) == list(range(24, -1, -2))


async def test_a_cursor_that_no_listing_gave_is_refused(any_app: Windlass) -> None:
    async with any_app, visiting(any_app) as visitor:
        await enqueued(visitor)
        for cursor in ("x", "!!!", "e30", "bnVsbA", "W10", "WyJhIiwiYiJd"):
            answer = await visitor.get("/api/jobs", params={"cursor": cursor})
            error = answer.json()["error"]
            assert (answer.status_code, error["code"], error["field"]) == (400, "invalid", "cursor"), cursor


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=501", "limit=x", "state=lost", "colour=red", "limit=1&limit=2", "queue=UP", "%ff"],
)
async def test_a_query_is_read_strictly(visitor: httpx.AsyncClient, query: str) -> None:
    answer = await visitor.get(f"/api/jobs?{query}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid")


@pytest.mark.parametrize("id", ["0", "1", "x", "-1", "99999999999999999999", "9223372036854775808", "%00"])
async def test_a_job_that_is_not_there_is_not_found(visitor: httpx.AsyncClient, id: str) -> None:
    for method, path in (
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/cancel"),
        ("POST", "/retry"),
        ("POST", "/replay"),
    ):
        answer = await visitor.request(method, f"/api/jobs/{id}{path}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found"), path


async def test_numbers_beyond_64_bits_are_shown(app: Windlass) -> None:
    async with rigged(app) as rig, visiting(app) as visitor:
        (id,) = await rig.add("t", payload='{"n": 123456789012345678901234567890, "half": "\\ud800"}')
        answer = await visitor.get(f"/api/jobs/{id}")
        assert answer.status_code == 200
        assert "123456789012345678901234567890" in answer.text
        assert (await visitor.get("/api/jobs")).status_code == 200


async def test_a_listing_leaves_out_what_is_long(visitor: httpx.AsyncClient) -> None:
    id = await enqueued(visitor, kwargs={"x": "y" * 10_000})
    (listed,) = (await visitor.get("/api/jobs")).json()["jobs"]
    assert (listed["payload"], listed["cut"]) == (None, True)
    assert len((await visitor.get(f"/api/jobs/{id}")).json()["payload"]["x"]) == 10_000


async def test_a_job_tells_its_life(app: Windlass) -> None:
    """[M4]: retrying (N tries) with its last error, and why it waits."""
    async with rigged(app) as rig, visiting(app) as visitor:
        worker = await rig.worker("default")
        (id,) = await rig.add("t")
        await rig.finish(worker, await rig.run(worker, id), Kind.RETRY, delay=60.0, error=failure("no luck"))
        job = (await visitor.get(f"/api/jobs/{id}")).json()
        assert job["state_text"] == "retrying (1 try)"
        assert job["errors"][-1]["message"] == "no luck"
        assert job["why"].startswith("due in")
        assert [event["kind"] for event in job["timeline"]][:2] == ["enqueued", "failed"]
        (listed,) = (await visitor.get("/api/jobs", params={"state": "retrying"})).json()["jobs"]
        assert listed["state_text"] == "retrying (1 try)"
        assert listed["errors"][0]["traceback"] == ""


# -- managing -----------------------------------------------------------------------------------------------


async def test_jobs_are_cancelled_retried_replayed_and_deleted(any_app: Windlass) -> None:
    async with any_app, visiting(any_app) as visitor:
        one, two = await enqueued(visitor), await enqueued(visitor, delay=3600)
        early = await visitor.post(f"/api/jobs/{one}/replay")
        assert (early.status_code, early.json()["error"]["code"]) == (409, "conflict")
        assert (await visitor.post(f"/api/jobs/{two}/retry")).json() == {"answers": {two: "retried"}}
        cancelled = await visitor.post("/api/jobs/cancel", json={"ids": [one, two, "4711"]})
        assert cancelled.json()["answers"] == {one: "cancelled", two: "cancelled", "4711": "not_found"}
        copy = await visitor.post(f"/api/jobs/{one}/replay")
        assert copy.status_code == 201
        assert (await visitor.get(f"/api/jobs/{copy.json()['id']}")).json()["replay_of"] == one
        assert (await visitor.delete(f"/api/jobs/{two}")).json() == {"answers": {two: "deleted"}}
        assert (await visitor.get(f"/api/jobs/{two}")).status_code == 404
        answer = (await visitor.get("/api/events")).json()["events"]
        assert {event["kind"] for event in answer} == {"operator"}
        assert {event["worker"] for event in answer} == {"local"}
        assert (await visitor.get("/api/events", params={"job": one})).json()["events"]


async def test_methods_and_addresses_that_are_not_there(visitor: httpx.AsyncClient) -> None:
    answer = await visitor.patch("/api/jobs")
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "POST, GET"
    assert (await visitor.get("/api/nothing")).status_code == 404
    assert (await visitor.get("/nothing")).status_code == 404
    assert (await visitor.delete("/jobs")).status_code == 405


# -- trouble ------------------------------------------------------------------------------------------------

ADDRESS = "postgresql://user:hunter2@db/x"


class Troubled(SQLiteStore):
    """A store whose reads raise."""

    def __init__(self, error: Exception) -> None:
        super().__init__(":memory:")
        self.error = error

    async def job(self, job: int) -> Any:  # type: ignore[misc]
        raise self.error

    async def enqueue(self, jobs: Any, *, connection: Any = None) -> Any:
        raise self.error

    async def now(self) -> float:
        raise self.error


async def test_a_store_that_is_away_is_told_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    with Windlass(store=Troubled(StoreUnavailable(f"cannot reach {ADDRESS}"))) as app:
        async with visiting(app) as visitor:
            looked = await visitor.get("/api/jobs/1")
            added = await visitor.post("/api/jobs", json={"task": "a"})
            ready = await visitor.get("/readyz")
    for answer in (looked, added):
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_unavailable")
        assert int(answer.headers["retry-after"]) >= 1
        assert "hunter2" not in answer.text
    assert (ready.status_code, ready.json()) == (503, {"ok": False})


async def test_what_nobody_foresaw_is_told_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    with Windlass(store=Troubled(ZeroDivisionError(ADDRESS))) as app, caplog.at_level(logging.ERROR):
        async with visiting(app) as visitor:
            for answer in (
                await visitor.get("/api/jobs/1"),
                await visitor.post("/api/jobs", json={"task": "a"}),
            ):
                assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
                assert "hunter2" not in answer.text
                assert "Traceback" not in answer.text
    assert "ZeroDivisionError" in caplog.text  # whoever runs it can find out


async def test_many_callers_share_calls_to_the_store(any_app: Windlass) -> None:
    async with any_app, visiting(any_app) as visitor:
        ids = await asyncio.gather(*(enqueued(visitor, kwargs={"n": n}) for n in range(100)))
        assert len(set(ids)) == 100
        jobs = (await visitor.get("/api/jobs", params={"limit": 500})).json()["jobs"]
        assert {job["id"]: job["payload"]["n"] for job in jobs} == {id: n for n, id in enumerate(ids)}
