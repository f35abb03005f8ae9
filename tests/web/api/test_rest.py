"""Queues, tasks, parents, schedules, budgets, gates, workers, measures and the store, over HTTP."""

import time
from typing import Any

import httpx
import pytest

from tests.web.kit import rigged, visiting
from windlass import Windlass
from windlass.core.histogram import bucket
from windlass.core.rollup import Sample
from windlass.core.states import Kind
from windlass.operations.events import find_events
from windlass.operations.measures import list_measures
from windlass.operations.principal import Principal, Role
from windlass.store.records import Busy, NewSchedule, Report, Vitals
from windlass.web.service.service import Service


async def test_a_queue_is_declared_paused_resumed_and_set(any_app: Windlass) -> None:
    """[K2]"""
    async with any_app, visiting(any_app) as visitor:
        assert (await visitor.get("/api/queues/mail")).status_code == 404
        assert (await visitor.post("/api/queues/mail/pause")).status_code == 404
        made = await visitor.put("/api/queues/mail", json={"max_depth": 10, "retention": 60})
        assert (made.json()["max_depth"], made.json()["retention"]) == (10, 60.0)
        paused = (await visitor.post("/api/queues/mail/pause")).json()
        assert (paused["paused"], paused["state_text"]) == (True, "paused")
        assert (await visitor.post("/api/queues/mail/resume")).json()["paused"] is False
        back = (await visitor.put("/api/queues/mail", json={"max_depth": None, "window": None})).json()
        assert (back["max_depth"], back["window"], back["retention"]) == (None, 100, 60.0)
        assert [queue["name"] for queue in (await visitor.get("/api/queues")).json()["queues"]] == ["mail"]
        answer = (await visitor.get("/api/events", params={"queue": "mail"})).json()["events"]
        assert [event["text"] for event in answer][:2] == ["set: window=100, max_depth=None", "resumed"]


async def test_a_queue_that_cools_says_so(app: Windlass) -> None:
    """[M4]"""
    async with rigged(app) as rig, visiting(app) as visitor:
        await rig.store.throttle("mail")
        assert (
            (await visitor.get("/api/queues/mail")).json()["state_text"].startswith("throttled, resumes in")
        )
        assert (await visitor.post("/api/queues/mail/warm")).json()["state_text"] == ""


NONSENSE: list[dict[str, Any]] = [
    {"max_workers": 0},
    {"max_workers": -1},
    {"max_workers": "many"},
    {"max_workers": 10**12},
    {"retention": -1.0},
    {"retention": 8 * 86400.0},
    {"safety_bound": 0},
    {"rate_min": 5000.0},
    {"paused": None},
    {"throttles": 3},
    {"name": "other"},
]


async def test_settings_that_make_no_sense_are_refused(any_app: Windlass) -> None:
    async with any_app, visiting(any_app) as visitor:
        for changes in NONSENSE:
            answer = await visitor.put("/api/queues/mail", json=changes)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid"), changes


async def test_tasks_have_settings_and_counts(app: Windlass) -> None:
    @app.task(name="mail.send", queue="mail")
    async def send() -> None: ...

    async with rigged(app) as rig, visiting(app) as visitor:
        await rig.add("other", "other")
        changed = await visitor.put("/api/tasks/mail.send", json={"concurrency": 3, "batch_timeout": 9})
        assert (changed.json()["concurrency"], changed.json()["known"]) == (3, True)
        tasks = {task["name"]: task for task in (await visitor.get("/api/tasks")).json()["tasks"]}
        assert (tasks["mail.send"]["queue"], tasks["mail.send"]["concurrency"]) == ("mail", 3)
        assert (tasks["other"]["known"], tasks["other"]["ready"]) == (False, 2)
        assert (await visitor.put("/api/tasks/mail.send", json={"concurrency": 0})).status_code == 400
        sized = [{"chunk": "128MiB"}, {"chunk": 134217728}, {"chunk": 50}, {"chunk": None}]  # [P13]
        answers = [(await visitor.put("/api/tasks/mail.send", json=each)).json()["chunk"] for each in sized]
        assert answers == [134217728, 134217728, 50, None]
        for wrong in ("a lot", "0", 0, 1.5):
            refused = await visitor.put("/api/tasks/mail.send", json={"chunk": wrong})
            assert refused.status_code == 400, wrong
        assert (await visitor.put("/api/tasks/No", json={})).status_code == 400


async def test_a_parent_shows_every_part(any_app: Windlass) -> None:
    """[P10]"""
    async with any_app, rigged(any_app) as rig, visiting(any_app) as visitor:
        worker = await rig.worker("default")
        id = await rig.parent(worker, 5, parallel=3)
        first, second = (await rig.claim(worker, limit=2))[:2]
        await rig.finish(worker, first)
        await rig.finish(worker, second, Kind.DEAD)
        await rig.parent_record(id)
        (listed,) = (await visitor.get("/api/parents", params={"active": "true"})).json()["parents"]
        assert (listed["id"], listed["total"], listed["succeeded"], listed["dead"]) == (str(id), 5, 1, 1)
        answer = (await visitor.get(f"/api/parents/{id}")).json()
        assert answer["strip"][:2] == "sd"
        assert len(answer["strip"]) == answer["strip_parts"] == 5
        assert {answer["letters"][letter] for letter in answer["strip"][:2]} == {"succeeded", "dead"}
        assert answer["needing"][0]["state"] == "dead"
        parts = (await visitor.get(f"/api/parents/{id}/parts", params={"start": 1, "limit": 2})).json()[
            "parts"
        ]
        assert (len(parts), parts[0]["index"], parts[0]["state"]) == (2, 1, "dead")
        wider = await visitor.put(f"/api/parents/{id}", json={"parallel": 5})
        assert wider.json()["parallel"] == 5
        assert (await visitor.post(f"/api/parents/{id}/redrive")).json() == {"redriven": 1}
        assert (await visitor.put(f"/api/parents/{id}", json={"parallel": 0})).status_code == 400
        for method, path in (("GET", ""), ("GET", "/parts"), ("POST", "/redrive")):
            assert (await visitor.request(method, f"/api/parents/4711{path}")).status_code == 404
        job = (await visitor.get(f"/api/jobs/{id}")).json()
        assert (job["parent"]["total"], job["why"]) == (5, "it waits for its parts")


async def test_a_schedule_is_run_paused_resumed_and_removed(any_app: Windlass) -> None:
    """[K4]"""
    async with any_app, rigged(any_app) as rig, visiting(any_app) as visitor:
        now = await rig.store.now()
        await rig.store.seed_schedule(NewSchedule(name="daily", cron="0 9 * * *", task="t"), now + 3600)
        (listed,) = (await visitor.get("/api/schedules")).json()["schedules"]
        assert (listed["name"], len(listed["upcoming"]), listed["state_text"]) == ("daily", 3, "")
        job = (await visitor.post("/api/schedules/daily/run")).json()["job"]
        assert (await visitor.get(f"/api/jobs/{job}")).json()["headers"]["windlass-schedule"] == "daily"
        assert (await visitor.post("/api/schedules/daily/pause")).json()["paused"] is True
        assert (await visitor.post("/api/schedules/daily/resume")).json()["paused"] is False
        assert (await visitor.delete("/api/schedules/daily")).json() == {"removed": "daily"}
        for method, path in (("POST", "/run"), ("POST", "/pause"), ("POST", "/resume"), ("DELETE", "")):
            assert (await visitor.request(method, f"/api/schedules/daily{path}")).status_code == 404


async def test_a_schedule_is_added_changed_and_reverted(any_app: Windlass) -> None:
    """[K4]"""
    async with any_app, rigged(any_app) as rig, visiting(any_app) as visitor:
        job = {"task": "t", "args": [1], "queue": "slow", "priority": "high", "tags": ["a"]}
        body = {"name": "eu", "every": "10s", "overlap": "queue", "job": job}
        added = await visitor.post("/api/schedules", json=body)
        assert added.status_code == 201
        made = added.json()
        assert (made["cron"], made["overlap"], made["origin"]) == ("@every 10s", "queue", "live")
        assert (made["queue"], made["priority"], made["payload"]) == ("slow", "high", [1])
        assert (await visitor.post("/api/schedules", json=body)).status_code == 409
        for wrong in (
            {"cron": "0 9 * * *"},
            {"every": "1ms"},
            {"every": None},
            {"tz": "Mars/Crater"},
            {"name": "Not A Name"},
            {"job": job | {"delay": 5}},
            {"grace": "soon"},
        ):
            refused = await visitor.post("/api/schedules", json=body | {"name": "other"} | wrong)
            assert refused.status_code == 400, wrong
        changed = (
            await visitor.put("/api/schedules/eu", json={"cron": "0 9 * * *", "tz": "Asia/Tokyo"})
        ).json()
        assert (changed["cron"], changed["tz"], changed["queue"]) == ("0 9 * * *", "Asia/Tokyo", "slow")
        other = (await visitor.put("/api/schedules/eu", json={"job": {"task": "u"}})).json()
        assert (other["task"], other["queue"], other["payload"]) == ("u", "default", {})
        assert (await visitor.put("/api/schedules/eu", json={"cron": "nonsense"})).status_code == 400
        assert (await visitor.post("/api/schedules/eu/revert")).status_code == 409
        now = await rig.store.now()
        await rig.store.seed_schedule(NewSchedule(name="daily", cron="0 9 * * *", task="t"), now + 3600)
        moved = (await visitor.put("/api/schedules/daily", json={"cron": "0 8 * * *"})).json()
        assert (moved["origin"], moved["differences"]) == ("changed", {"cron": "0 9 * * *"})
        back = (await visitor.post("/api/schedules/daily/revert")).json()
        assert (back["origin"], back["cron"], back["differences"]) == ("code", "0 9 * * *", {})
        for method, path in (("PUT", ""), ("POST", "/revert")):
            answer = await visitor.request(method, f"/api/schedules/nobody{path}", json={})
            assert answer.status_code == 404


async def test_a_budget_is_made_drained_and_removed(any_app: Windlass) -> None:
    """[F1]"""
    async with any_app, visiting(any_app) as visitor:
        assert (await visitor.put("/api/budgets/github", json={"burst": 5})).status_code == 400
        made = (await visitor.put("/api/budgets/github", json={"rate": "5000/h", "burst": 10})).json()
        assert (made["rate_text"], made["burst"], made["tokens"]) == ("5000/h", 10, 10.0)
        assert (await visitor.put("/api/budgets/github", json={"rate": "fast"})).status_code == 400
        capped = (await visitor.put("/api/budgets/github", json={"cap": "2M/month"})).json()
        assert (capped["cap"], capped["cap_per"]) == (2_000_000, "month")
        assert (await visitor.put("/api/budgets/github", json={"cap": "2M"})).status_code == 400
        both = {"cap": "2M/month", "cap_per": "day"}
        assert (await visitor.put("/api/budgets/github", json=both)).status_code == 400
        assert (await visitor.post("/api/budgets/github/drain")).json()["tokens"] < 1  # all is optional
        drained = (await visitor.post("/api/budgets/github/drain", json={"pause": 30})).json()
        assert drained["state_text"].startswith("drained, resumes in")
        assert (await visitor.get("/api/budgets")).json()["budgets"][0]["name"] == "github"
        assert (await visitor.delete("/api/budgets/github")).json() == {"removed": "github"}
        assert (await visitor.post("/api/budgets/github/drain", json={})).status_code == 404
        assert (await visitor.post("/api/budgets/github/drain")).status_code == 404
        assert (await visitor.delete("/api/budgets/github")).status_code == 404


async def test_gates_and_watermarks(app: Windlass) -> None:
    async with rigged(app) as rig, visiting(app) as visitor:
        await rig.add("t", "t", "t", ordering_key="k")
        (gate,) = (await visitor.get("/api/gates")).json()["gates"]
        assert (gate["name"], gate["waiting"]) == ("order:default/k", 2)
        (mark,) = (await visitor.get("/api/queues/default/watermarks")).json()["watermarks"]
        assert (mark["key"], mark["waiting"]) == ("k", 3)
        nothing = await visitor.get("/api/queues/default/watermarks", params={"key": "other"})
        assert nothing.json()["watermarks"] == []


async def reported(app: Windlass, counts: dict[str, int]) -> None:
    """A worker has told what it counted in this minute and the last, and it was rolled up."""
    async with rigged(app) as rig:
        now = await rig.store.now()
        minute = int(now) - int(now) % 60
        sample = Sample(
            at=minute, queue="mail", task="t", counts=counts, waits={bucket(10.0): 4}, runs={bucket(100.0): 4}
        )
        worker = await rig.worker("mail")
        busy = Busy(17, "t", "mail", now - 3)
        vitals = Vitals(cpu=0.5, memory=10**8, running=1, slots=4, jobs=(busy,))
        await rig.store.report(worker, 1, Report(samples=[sample], vitals=vitals))
        await rig.store.rollup()


async def test_what_was_measured_and_who_measured_it(app: Windlass) -> None:
    """[M1] [M3]"""
    await reported(app, {"succeeded": 120, "dead": 2, "retry": 4})
    async with visiting(app) as visitor:
        for query in ({}, {"queue": "mail"}, {"queue": "mail", "task": "t"}):
            points = (await visitor.get("/api/measures", params={"last": 600, **query})).json()["points"]
            assert len(points) in (10, 11)
            last = next(point for point in reversed(points) if point["counts"])
            assert last["counts"]["succeeded"] == 120
            assert last["run_p50"] == pytest.approx(100, rel=0.1)
            assert last["wait_p95"] == pytest.approx(10, rel=0.1)
            assert points[0]["counts"] == {}
        hours = (await visitor.get("/api/measures", params={"last": 86400})).json()["points"]
        assert len(hours) in (24, 25)
        other = (await visitor.get("/api/measures", params={"queue": "other"})).json()["points"]
        assert not any(point["counts"] for point in other)
        assert (await visitor.get("/api/measures", params={"last": 10**9})).status_code == 400
        (worker,) = (await visitor.get("/api/workers")).json()["workers"]
        assert (worker["state_text"], worker["vitals"]["cpu"], worker["vitals"]["slots"]) == ("alive", 0.5, 4)
        assert worker["vitals"]["jobs"][0]["job"] == "17"


@pytest.mark.parametrize(
    ("last", "points", "most"),
    [
        (3600, 61, 60),
        (21_540, 360, 60),
        (21_599, 361, 60),
        (21_600, 361, 60),
        (21_601, 8, 3600),
        (86_400, 25, 3600),
    ],
)
async def test_six_hours_are_drawn_minute_by_minute(
    app: Windlass, last: float, points: int, most: int
) -> None:
    """A job a second, for as long as anybody has looked: no point of a minute holds an hour."""
    async with rigged(app) as rig, visiting(app) as visitor:
        minute = int(await rig.store.now()) // 60 * 60
        samples = [
            Sample(at=minute - 60 * back, queue="q", task="t", counts={"succeeded": 60})
            for back in range(600)
        ]
        await rig.store.report(7, 1, Report(samples=samples))
        while (await rig.store.rollup()).more:
            pass
        found = (await visitor.get("/api/measures", params={"queue": "q", "last": last})).json()["points"]
    assert points - 1 <= len(found) <= points + 1
    counts = [point["counts"]["succeeded"] for point in found if point["counts"]]
    assert max(counts) == most
    assert len(counts) >= min(points, 10) - 2


async def test_one_who_looks_on_leaves_nothing_behind(app: Windlass) -> None:
    """The keys of what is shared hold nothing that moves with time, and nothing that has no end."""
    service, principal = Service(app), Principal("x", Role.READ)
    ahead = 0.0

    async def later() -> float:
        return 1_700_000_000.0 + ahead

    service.store.now = later  # type: ignore[method-assign]
    for minute in range(5):
        ahead = minute * 60.0
        await service.run(principal, list_measures, "q", last=21_000.0)
        await service.run(principal, find_events, before=9_000 + minute)
        await service.run(principal, find_events, job=9_000 + minute)
    assert len(service.store.cache._kept) == 1


async def test_one_glance_says_whether_all_is_well(app: Windlass) -> None:
    async with visiting(app) as visitor:
        calm = (await visitor.get("/api/overview")).json()
        assert (calm["healthy"], calm["findings"], calm["workers_alive"]) == ("ok", [], 0)
    await reported(app, {"succeeded": 120, "dead": 2})
    async with rigged(app) as rig, visiting(app) as visitor:
        await rig.add("t", queue="mail")
        await rig.add("t", queue="lonely")
        await visitor.post("/api/queues/mail/pause")
        seen = (await visitor.get("/api/overview")).json()
        assert seen["healthy"] == "warning"
        findings = {finding["name"]: finding for finding in seen["findings"]}
        assert set(findings) == {"queue mail", "queue lonely"}
        assert "paused" in findings["queue mail"]["text"]
        assert "no worker serves it" in findings["queue lonely"]["text"]
        assert all(finding["since"] and finding["advice"] for finding in findings.values())
        assert {queue["name"] for queue in seen["queues"][:2]} == {"mail", "lonely"}
        assert (seen["totals"]["ready"], seen["workers_alive"], seen["running"], seen["slots"]) == (
            2,
            1,
            1,
            4,
        )
        assert seen["succeeded_per_second"] > 0
        assert len(seen["spark"]) in (60, 61)
        assert seen["run_p50"] == pytest.approx(100, rel=0.1)


async def test_how_the_store_is_doing(any_app: Windlass) -> None:
    async with any_app, visiting(any_app) as visitor:
        answer = (await visitor.get("/api/operations")).json()
        assert answer["store"]
        assert answer["latency_ms"] >= 0
        assert answer["leads"] is False
        assert all(finding["level"] != "error" for finding in answer["findings"])


async def test_health_and_metrics(visitor: httpx.AsyncClient) -> None:
    """[M6]: no data for those who have not said who they are."""
    for path in ("/healthz", "/readyz"):
        answer = await visitor.get(path, headers={"host": "10.1.2.3"})
        assert (answer.status_code, answer.json()) == (200, {"ok": True})
    metrics = await visitor.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "windlass_queue_depth" in metrics.text


async def test_a_change_shows_at_once(visitor: httpx.AsyncClient) -> None:
    """Answers are shared for a second, but nobody who has just changed something sees the old one."""
    await visitor.put("/api/queues/a", json={})
    for _ in range(3):
        assert (await visitor.get("/api/overview")).json()["queues"][0]["paused"] is False
        await visitor.post("/api/queues/a/pause")
        assert (await visitor.get("/api/overview")).json()["queues"][0]["paused"] is True
        await visitor.post("/api/queues/a/resume")


async def test_many_looks_are_few_reads(app: Windlass) -> None:
    reads = 0
    async with rigged(app) as rig, visiting(app) as visitor:
        plain = rig.store.depth

        async def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal reads
            reads += 1
            return await plain(*args, **kwargs)

        rig.store.depth = counted  # type: ignore[method-assign]
        begun = time.monotonic()
        for _ in range(20):
            await visitor.get("/api/overview")
            await visitor.get("/api/queues")
            await visitor.get("/api/workers")
        assert reads <= 2 + 2 * (time.monotonic() - begun)
