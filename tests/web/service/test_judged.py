"""What an operator is told: since when as far as the store knows, each thing once, and where to go about it
[M3] [M4]."""

from typing import Any, get_args

import httpx
import pytest
from starlette.requests import Request

from tests.web.kit import rigged, visiting
from tests.web.pages.kit import Html, harmless
from windlass import Windlass
from windlass.core.rollup import MINUTE, Sample
from windlass.core.states import State
from windlass.operations.bulk import BulkShape
from windlass.operations.findings import Known, rests, since
from windlass.operations.job_views import running_since, time_limit
from windlass.presentation.findings import Deaths, deaths_of
from windlass.presentation.text import iso
from windlass.store.records import (
    Event,
    EventKind,
    EventRecord,
    Finding,
    GateRecord,
    Health,
    JobRecord,
    Need,
    NewSchedule,
    Options,
    QueueRecord,
    Report,
    ScheduleRecord,
)
from windlass.web.pages.findings import place_of
from windlass.web.pages.overview import KINDS
from windlass.web.pages.rendering import render

NOW = 10_000.0


def found(name: str) -> Finding:
    return Finding(name=name, level="warning", text="")


def event(at: float, kind: EventKind, text: str = "") -> EventRecord:
    return EventRecord(id=int(at), at=at, kind=kind, text=text)


# -- since when -----------------------------------------------------------------------------------------


def test_the_last_burst_of_deaths_counts_from_its_first_minute() -> None:
    def minute(number: int, **counts: int) -> Sample:
        return Sample(at=number * MINUTE, counts=counts)

    rows = [minute(1, dead=3), minute(2, succeeded=9), minute(30, dead=1), minute(35, dead=2)]
    assert deaths_of(rows) == Deaths(6, 30 * MINUTE)
    assert deaths_of(rows[1:2]) == Deaths()


@pytest.mark.parametrize(
    ("name", "at"),
    [("gate task:t", 9_000.0), ("schedule nightly", 9_500.0), ("schedule broken", None),
     ("schedule gone", None), ("budget github", 8_800.0), ("budget open", 9_900.0), ("budget closed", None),
     ("rotation", 7_000.0),
     ("snapshots", 9_940.0), ("locks", 9_970.0), ("queue full", None), ("machine", None)],
)  # fmt: skip
def test_a_finding_is_dated_by_what_the_store_knows(name: str, at: float | None) -> None:
    schedule: dict[str, Any] = {"cron": "* * * * *", "task": "t", "next_at": 9_500.0}
    known = Known(
        now=NOW,
        gates=[
            GateRecord(name="task:t", passes=1, waiting=2, oldest=1_000.0),
            GateRecord(name="budget:github/", passes=0, waiting=2, oldest=1_200.0),
        ],
        schedules=[
            ScheduleRecord(name="nightly", **schedule),
            ScheduleRecord(name="broken", error="no cron", **schedule),
        ],
        health=Health(store="x", blocked_since=7_000.0, oldest_snapshot=60.0, locks_held=30.0),
        events=[
            event(9_900.0, "breaker", "the breaker of budget open is open after 5 failures in a row"),
            event(9_800.0, "breaker", "the breaker of budget closed is closed"),
            event(9_700.0, "breaker", "the breaker of budget closed is open after 5 failures"),
        ],
    )
    assert since(found(name), known) == at


def test_a_queue_rests_since_somebody_paused_it_or_it_was_throttled() -> None:
    paused, cooling = QueueRecord(name="q", paused=True), QueueRecord(name="q", cooling=9.0)
    seen = [event(9.0, "retry"), event(7.0, "throttled"), event(5.0, "operator", "paused")]
    assert (rests(paused, seen), rests(cooling, seen)) == (5.0, 7.0)
    assert rests(paused, [event(6.0, "operator", "resumed"), *seen]) is None
    assert rests(paused, []) is None


async def test_a_finding_stands_once_and_leads_to_its_page(any_app: Windlass) -> None:
    async with rigged(any_app) as rig:
        await rig.worker("other")
        await rig.add("t", queue="lonely")
        await rig.store.seed_schedule(
            NewSchedule(name="nightly", cron="0 3 * * *", task="t"), await rig.store.now() - 900
        )
    async with visiting(any_app) as visitor:
        answer = (await visitor.get("/api/overview")).json()["findings"]
        assert [each["name"] for each in answer if "lonely" in each["text"] + each["name"]] == [
            "queue lonely"
        ]
        assert all(each["since"] for each in answer if each["name"].startswith(("queue", "schedule")))
        page = Html((await visitor.get("/")).text)
    assert {"/queues/lonely", "/schedules"} <= set(page.links())


async def test_deaths_are_told_while_the_jobs_are_dead(any_app: Windlass) -> None:
    """[M3] A finding ends with its cause."""
    async with rigged(any_app) as rig, visiting(any_app) as visitor:
        dead = [await rig.bring(State.DEAD, await rig.worker()) for _ in range(3)]
        minute = int(await rig.store.now()) // 60 * 60
        await rig.store.report(7, 1, Report(samples=[Sample(at=minute, queue="default", counts={"dead": 3})]))
        await rig.store.rollup()

        async def told() -> list[str]:
            findings = (await visitor.get("/api/overview")).json()["findings"]
            return [each["text"] for each in findings if each["name"] == "dead jobs"]

        assert await told() == ["3 jobs died within the last hour"]
        await visitor.post("/api/jobs/retry", json={"ids": [str(dead[0])]})
        assert await told() == ["2 jobs died within the last hour"]
        await visitor.post("/api/jobs/delete", json={"ids": [str(id) for id in dead[1:]]})
        assert await told() == []


def test_places_of_findings() -> None:
    names = ("dead jobs", "queue a.b", "budget x", "gate task:t", "clock")
    assert [place.path if (place := place_of(name)) else None for name in names] == [
        "/dead", "/queues/a.b", "/budgets", "/queues", None,
    ]  # fmt: skip


# -- queues and jobs ------------------------------------------------------------------------------------


async def test_a_queue_whose_jobs_are_held_says_what_they_wait_for(any_app: Windlass) -> None:
    async with rigged(any_app) as rig:
        worker = await rig.worker("mail")
        await rig.store.set_budget("github", {"rate": 0.001, "burst": 1})
        await rig.store.take("github", 1)
        await rig.add("t", queue="mail")
        assert not await rig.store.claim(worker, ["mail"], 5, {"t": [Need("github")]})
    async with visiting(any_app) as visitor:
        (queue,) = (await visitor.get("/api/queues")).json()["queues"]
        page = (await visitor.get("/queues")).text
    assert queue["ready"] == 1
    assert "budget github" in queue["state_text"]
    assert "</svg>idle" not in page
    assert "</svg>waits for tokens of budget github" in page


def job(**fields: Any) -> JobRecord:
    plain: dict[str, Any] = {
        "id": 1, "task": "t", "queue": "q", "priority": 2, "state": State.RUNNING, "payload": "{}",
        "attempt": 1, "deaths": 0, "options": Options(), "enqueued_at": 100.0, "claimed_at": 110.0,
    }  # fmt: skip
    return JobRecord(**{**plain, **fields})


def test_how_long_a_run_may_take() -> None:
    queue = QueueRecord(name="q", safety_bound=60.0)
    assert time_limit(job(), queue, None) == 60.0
    assert time_limit(job(), queue, 30.0) == 30.0
    assert time_limit(job(options=Options(timeout=90.0)), queue, 30.0) == 60.0
    assert running_since(job(), []) == 110.0
    assert running_since(job(state=State.READY), []) is None


async def test_a_running_job_says_that_its_cancel_was_requested(
    app: Windlass, visitor: httpx.AsyncClient
) -> None:
    async with rigged(app) as rig:
        (id,) = await rig.add("t")
        await rig.run(await rig.worker("default"), id)
    running = (await visitor.get(f"/jobs/{id}")).text
    assert "running for" in running
    assert ">deadline<" in running
    await visitor.post(f"/jobs/{id}", data={"do": "cancel"})
    asked = (await visitor.get(f"/jobs/{id}")).text
    assert "Cancel requested:" in asked
    assert "Why it waits" not in asked


async def test_a_search_without_hits_offers_nothing_to_do(visitor: httpx.AsyncClient, app: Windlass) -> None:
    async with rigged(app) as rig:
        await rig.add("t")
    none = await visitor.get("/jobs", params={"q": "state:dead"})
    assert "All matches" not in none.text
    assert "/bulk/new" not in (await visitor.get("/dead")).text
    assert "All matches" in (await visitor.get("/jobs", params={"q": "state:ready"})).text


async def test_a_setting_that_makes_no_sense_is_shown_where_it_was_typed(
    app: Windlass, visitor: httpx.AsyncClient
) -> None:
    async with rigged(app) as rig:
        await rig.store.set_queue("mail", {})
    for name, typed in (("retention", "soon"), ("max_workers", "-1")):
        wrong = await visitor.post("/queues/mail", data={"do": "set", name: typed, "safety_bound": "2h"})
        assert wrong.status_code == 400
        harmless(wrong.text)
        fields = {each["name"]: each for each in Html(wrong.text).all("input") if "name" in each}
        assert fields[name]["value"] == typed
        assert fields[name]["aria-invalid"] == "true"
        assert fields["safety_bound"]["value"] == "2h"
        assert "Not saved" in Html(wrong.text).text


# -- events ---------------------------------------------------------------------------------------------


def test_every_kind_of_event_can_be_looked_for() -> None:
    listed = [kind for kinds in KINDS.values() for kind in kinds]
    assert sorted(listed) == sorted(get_args(EventKind))


async def test_events_by_time_and_by_kind(app: Windlass, visitor: httpx.AsyncClient) -> None:
    async with rigged(app) as rig:
        now = await rig.store.now()
        kinds: list[EventKind] = ["dead", "operator", "dead", "lost"]
        events = [
            Event(at=now - at, kind=kind, text=f"told {at}")
            for at, kind in zip((1, 3, 2, 4), kinds, strict=True)
        ]
        await rig.store.report(7, 1, Report(events=events))
    page = (await visitor.get("/events")).text
    places = [page.index(f"told {at}") for at in (1, 2, 3, 4)]
    assert places == sorted(places)
    dead = (await visitor.get("/events", params={"kind": "dead"})).text
    assert "told 1" in dead
    assert "told 3" not in dead
    asked = (await visitor.get("/api/events", params={"kind": "dead", "limit": 1})).json()
    assert [each["kind"] for each in asked["events"]] == ["dead"]
    onward = {"kind": "dead", "limit": 1, "before": asked["before"]}
    rest = (await visitor.get("/api/events", params=onward)).json()
    assert [each["text"] for each in rest["events"]] == ["told 1"]
    last = (await visitor.get("/api/events", params={"kind": "lost"})).json()
    assert (last["looked"], last["before"]) == (4, None)
    assert (await visitor.get("/api/events", params={"kind": "nonsense"})).status_code == 400


# -- trouble --------------------------------------------------------------------------------------------


async def test_a_page_during_an_outage_comes_back_by_itself() -> None:
    app = Windlass("postgresql://nobody@127.0.0.1:1/nowhere")
    async with visiting(app) as visitor:
        away = Html((await visitor.get("/events?kind=dead")).text)
        sent = Html((await visitor.post("/queues/mail", data={"do": "pause"})).text)
    await app.aclose()
    assert [each for each in away.all("section") if "data-retry" in each and "data-live" in each]
    assert "/events?kind=dead" in away.links()
    assert not [each for each in sent.all("section") if "data-retry" in each]
    assert all("data-state" not in each for each in away.all("div") if each.get("id") == "pulse")


@pytest.mark.parametrize(
    ("expected", "text"), [(None, "50,000 done, 1,000 a second"), (60_000, "50,000 of 60,000")]
)
def test_how_far_an_operation_is_that_nobody_could_count(expected: int | None, text: str) -> None:
    scope = {"type": "http", "method": "GET", "path": "/bulk/1", "headers": [], "query_string": b""}
    bulk = BulkShape(
        id="1", verb="retry", where={"state": "dead"}, by="ada", state="running", done=50_000,
        expected=expected, answers={}, error=None, started_at=iso(NOW) or "", ended_at=None,
    )  # fmt: skip
    shown = render(Request(scope), "bulk/page.html", section="jobs", bulk=bulk, now=NOW + 50)
    page = bytes(shown.body).decode()
    assert text in Html(page).text
    assert ("<progress" in page) == (expected is not None)
