"""What the tests of pages hold in their hands: a page taken apart, a store full of hostile text, and what
must hold for every page."""

import json
import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx

from tests.conformance.kit import Rig
from windlass.core.histogram import bucket
from windlass.core.rollup import Sample
from windlass.core.states import Kind, State
from windlass.store.records import (
    Busy,
    Checkpoint,
    Event,
    Failure,
    NewSchedule,
    Outcome,
    Report,
    Step,
    Vitals,
    WorkerInfo,
)

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}&lt;\u202e\x1b[31m" + "w" * 120
WRONG = Failure(HOSTILE, HOSTILE, f"Traceback:\n  {HOSTILE}", 1, 1_700_000_000.0)
OPTIONS: dict[str, Any] = {
    "tags": (HOSTILE, "plain"),
    "headers": {HOSTILE: HOSTILE},
    "trace": HOSTILE,
    "max_attempts": 3,
}
VOID = {"meta", "link", "input", "img", "br", "hr", "path", "circle", "line", "rect", "ellipse"}


class Html(HTMLParser):
    """What a page holds: its elements, their attributes, its text with white space folded."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag, f"<{tag}> is closed and was not the last one opened"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, *tags: str) -> list[dict[str, str]]:
        """The attributes of every element of these kinds."""
        return [attributes for tag, attributes in self.elements if tag in tags]

    def links(self) -> list[str]:
        """Where one can go from here."""
        return [attributes["href"] for attributes in self.all("a")]


class Filled:
    """A store with jobs in every state, all of them with hostile text wherever text can be."""

    def __init__(self) -> None:
        self.jobs: dict[State, int] = {}
        self.parent = 0
        self.worker = 0

    async def fill(self, rig: Rig) -> None:
        store = rig.store
        self.worker = await rig.worker("default", "mail")
        await store.register(WorkerInfo(id=7, label=HOSTILE, host=HOSTILE, pid=1, queues=("mail",)))
        for state in (State.SUCCEEDED, State.CANCELLED, State.RETRYING, State.DEAD, State.RUNNING):
            self.jobs[state] = await self._ended(rig, state)
        long = _json({"x": "y" * 300})
        (self.jobs[State.READY],) = await rig.add("t", payload=long, queue="idle", **OPTIONS)
        (self.jobs[State.SCHEDULED],) = await rig.add("t", delay=3600.0, **OPTIONS)
        self.parent = await rig.parent(self.worker, 6)
        for at, part in enumerate(await rig.claim(self.worker, limit=2)):
            kind = (Kind.SUCCEEDED, Kind.DEAD)[at]
            error = WRONG if kind is Kind.DEAD else None
            await rig.flush(self.worker, [Outcome(job=part, kind=kind, error=error)])
        await store.promote()
        await self._managed(rig)

    async def _ended(self, rig: Rig, state: State) -> int:
        (id,) = await rig.add("t", payload=_json({"text": HOSTILE, "n": 1}), **OPTIONS)
        job = await rig.run(self.worker, id)
        outcomes: dict[State, dict[str, Any]] = {
            State.SUCCEEDED: {"result": _json({"text": HOSTILE})},
            State.CANCELLED: {"kind": Kind.CANCELLED},
            State.RETRYING: {"kind": Kind.RETRY, "delay": 600.0, "error": WRONG},
            State.DEAD: {"kind": Kind.DEAD, "error": WRONG},
        }
        step = Step(name=HOSTILE[:60], result=_json({"text": HOSTILE}), code=HOSTILE)
        await rig.store.save_step(self.worker, job, step)
        await rig.store.save_step(self.worker, job, Step(name="sleep", sleep=3600.0))
        if state is State.RUNNING:
            await rig.store.checkpoint(self.worker, job, Checkpoint(_json({"text": HOSTILE}), 3, 10))
        else:
            await rig.flush(self.worker, [Outcome(job=job, **outcomes[state])])
        return id

    async def _managed(self, rig: Rig) -> None:
        store = rig.store
        await store.set_queue("mail", {"max_workers": 3})
        await store.throttle("mail", 30.0)
        await store.set_budget("upstream", {"rate": 5.0, "burst": 10, "breaker": 3})
        await store.seed_schedule(
            NewSchedule(name="nightly", cron="0 3 * * *", task="t", payload=_json({"text": HOSTILE})),
            await store.now() + 600,
        )
        await store.seed_schedule(
            NewSchedule(name="broken", cron="nonsense", task="t", tz="Mars/Crater"), None, HOSTILE
        )
        now = await store.now()
        minute = int(now) // 60 * 60 - 60
        counts = {"succeeded": 60, "retry": 3, "dead": 1}
        times = {bucket(12.0): 50, bucket(400.0): 10}
        vitals = Report(
            samples=[Sample(at=minute, queue="default", task="t", counts=counts, waits=times, runs=times)],
            events=[
                Event(
                    at=now, kind="dead", text=HOSTILE, job=self.jobs[State.DEAD], queue="default", task="t"
                ),
                Event(at=now, kind="lost", text=HOSTILE, worker=HOSTILE),
            ],
            vitals=Vitals(
                cpu=0.5, memory=2**27, running=1, slots=4, jobs=(Busy(1, HOSTILE, "default", now),)
            ),
        )
        await store.report(7, 1, vitals)
        await store.rollup()


# -- what holds for every page --------------------------------------------------------------------------


def harmless(text: str) -> None:
    """No script, style or handler that the policy would have to stop, and nothing that text has made."""
    page = Html(text)
    assert not page.open, page.open
    assert not page.all("img", "iframe", "style", "object", "base")
    assert all(each.get("src", "").startswith("/static/") for each in page.all("script"))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids)), sorted(id for id in set(ids) if ids.count(id) > 1)
    for tag, attributes in page.elements:
        assert "style" not in attributes, tag
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
    for table in re.findall(r"<table.*?</table>", text, re.DOTALL):
        assert "<caption" in table
        assert not re.search(r"<th(?![^>]*scope=)[ >]", table.replace("<thead", ""))
    named = {each["for"] for each in page.all("label") if "for" in each}
    for each in page.all("input", "select"):
        hidden = each.get("type") == "hidden" or "aria-label" in each or each.get("id") in named
        assert hidden or re.search(
            rf'<label><span[^>]*>[^<]*</span><(?:input|select)[^>]*name="{each["name"]}"', text
        )


async def crawl(visitor: httpx.AsyncClient, start: str, most: int = 150) -> set[str]:
    """Follow every link from a page on; each must answer. Gives the addresses without their queries."""
    visited: set[str] = set()
    queue = [start]
    async for page in _pages(visitor, queue, visited, most):
        queue += [urljoin("http://localhost/", link) for link in page.links() if not link.startswith("#")]
    return {urlsplit(address).path for address in visited}


async def _pages(
    visitor: httpx.AsyncClient, queue: list[str], visited: set[str], most: int
) -> AsyncIterator[Html]:
    while queue and len(visited) < most:
        address = queue.pop(0).partition("#")[0]
        if address in visited:
            continue
        visited.add(address)
        answer = await visitor.get(address)
        assert answer.status_code == 200, address
        yield Html(answer.text)


def _json(value: Any) -> str:
    return json.dumps(value)
