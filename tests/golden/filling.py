"""The fixed store: something of everything, in every state, by the store's own operations only."""

import itertools
from typing import Any, Final

from msgspec.structs import replace

from tests.conformance.kit import Rig, job
from tests.golden.still import clock
from windlass.core.flow.governor import Governor
from windlass.core.histogram import buckets
from windlass.core.rollup import Sample
from windlass.core.states import Kind, Priority
from windlass.handles.group import end_of_group
from windlass.store.protocol import Store
from windlass.store.records import (
    Busy,
    Checkpoint,
    ClaimedJob,
    Emits,
    Event,
    EventKind,
    Failure,
    Need,
    NewSchedule,
    Options,
    PartPlan,
    Plan,
    Report,
    Runs,
    Step,
    Vitals,
    Wait,
    WorkerInfo,
)

ANVIL, BELLOWS, LOST, OLD = 1001, 1002, 1003, 1004
"""The workers: two that live, one that died with a job, one that has retired."""
SERVED: Final = ("default", "mail", "imports", "orders", "slow", "flaky", "limited", "governed")
TIMEOUT: Final = Failure("TimeoutError", "no answer in 30 s", "Traceback …\n  smtp.send\nTimeoutError")
REFUSED: Final = Failure("SMTPError", "550 no such user <bob>", "Traceback …\n  smtp.send\nSMTPError")
SHAPE: Final = (
    '{"type":"object","required":["ok","amount"],"properties":{"ok":{"type":"boolean"},'
    '"amount":{"type":"integer"},"size":{"enum":["small","large"]},"note":{"type":"string"}}}'
)
KINDS: Final[tuple[EventKind, ...]] = ("retry", "throttled", "started", "lost", "leads", "operator")
NEEDS: Final = {"mail.send": [Need("smtp")], "llm.ask": [Need("tokens", 5, "tenant")]}


class Filling(Rig):
    """Fills one store. `ids` has every job that scripts name."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, clock, "golden")
        self.ids: dict[str, int] = {}

    async def fill(self) -> dict[str, int]:
        """Do it all, and answer with the ids by name."""
        await self._workers()
        await self._settings()
        await self._jobs()
        await self._limits()
        await self._durable()
        await self._group()
        await self._parents()
        await self._schedules()
        await self._measures()
        return self.ids

    async def hire(self, id: int, label: str, *queues: str, **about: Any) -> None:
        """Register a worker of a fixed id."""
        host = label.partition("-")[0]
        info = WorkerInfo(id=id, label=label, host=host, pid=id, queues=queues, lease=0.5, **about)
        await self.store.register(info)
        self._flushes[id], self._abilities[id] = itertools.count(1), info.abilities

    async def named(self, name: str, task: str, payload: str = "{}", **fields: Any) -> int:
        """Enqueue one job and remember it by a name."""
        self.ids[name] = (await self.one(task, payload=payload, **fields)).id
        return self.ids[name]

    async def started(self, name: str, task: str, payload: str = "{}", **fields: Any) -> ClaimedJob:
        """Enqueue one job and claim it; nothing else of its queue may be ready."""
        id = await self.named(name, task, payload, **fields)
        await clock.advance(2)
        return await self.run(ANVIL, id, fields.get("queue", "default"))

    # -- one subject after the other --------------------------------------------------------------------

    async def _workers(self) -> None:
        tasks = {"mail.send": "mail", "imports.load": "imports"}
        await self.hire(ANVIL, "anvil-1", *SERVED, tasks=tasks, abilities=frozenset({"gpu"}))
        await self.hire(BELLOWS, "bellows-1", "mail", "imports")
        await self.hire(LOST, "anvil-2", "default")
        await self.hire(OLD, "anvil-0", "default")
        await self.store.retire(OLD)
        await self.lead(ANVIL)

    async def _settings(self) -> None:
        store = self.store
        await store.set_queue("mail", {"max_workers": 6, "retention": 7200.0, "dead_retention": 86400.0})
        await store.set_queue("backlog", {"paused": True})
        await store.set_queue("tiny", {"max_depth": 2, "shed_depth": 40})
        await store.set_queue("governed", {"governor": True, "rate_min": 2.0, "rate_max": 50.0})
        await store.set_queue("limited", {"concurrency": 1, "process_slots": 2, "safety_bound": 600.0})
        await store.set_queue("cooling", {"cool_base": 1800.0})
        await store.throttle("cooling")
        await store.set_task("imports.load", {"batch": 500, "parallel": 2, "chunk": 1024})
        await store.set_task("mail.send", {"concurrency": 40, "key_concurrency": 2})
        await store.set_budget("smtp", {"rate": 10.0, "burst": 20})
        by_tenant = {"key": "tenant", "cap": 1000, "cap_per": "hour"}
        await store.set_budget("tokens", {"rate": 1.0, "burst": 10, **by_tenant})
        await store.set_budget("broken", {"rate": 5.0, "breaker": 2, "breaker_pause": 3600.0})
        await store.set_budget(
            "drained", {"rate": 0.5, "burst": 100, "cap": 50_000, "cap_zone": "Asia/Tokyo"}
        )
        await store.take("smtp", 4)
        await store.take("tokens", 7, "acme")
        await store.take("tokens", 2, "zeta")
        await store.report_calls("broken", 0, 2)
        await store.drain("drained", 3600.0)
        await store.count_runs({"governed": Runs(succeeded=40, failed=2, times=buckets([5.0] * 42))})
        await store.govern(
            await self.lead(ANVIL), "governed", Governor(rate=12.5, why="steady: 2 of 42 runs failed")
        )

    async def _jobs(self) -> None:
        """A job in every state, in the queues `mail` and `default`."""
        mail = {"queue": "mail", "tags": ("eu", "welcome"), "headers": {"locale": "fr"}}
        done = await self.started("succeeded", "mail.send", '{"to":"ada@example.com"}', **mail)
        await self.store.checkpoint(ANVIL, done, Checkpoint('{"n":3}', 3, 3))
        await self.finish(ANVIL, done, result='{"sent":true,"id":"<m1>"}', run_ms=120.5)
        gone = await self.started("cancelled", "mail.send", '{"to":"eve@example.com"}', **mail)
        await self.finish(ANVIL, gone, Kind.CANCELLED)
        again = await self.started("retrying", "mail.send", '{"to":"cy@example.com"}', max_attempts=3, **mail)
        await self.finish(ANVIL, again, Kind.RETRY, delay=3600.0, error=TIMEOUT)
        for name, task, error in (
            ("dead", "mail.send", REFUSED),
            ("dead2", "mail.send", TIMEOUT),
            ("dead3", "orders.ship", Failure("ValueError", "no address")),
        ):
            over = await self.started(name, task, f'["{name}@example.com",7]', max_attempts=1, **mail)
            await self.finish(ANVIL, over, Kind.DEAD, error=error, reason="exhausted")
        snoozed = await self.started("snoozed", "mail.digest", queue="mail")
        await self.finish(ANVIL, snoozed, Kind.SNOOZE, delay=300.0, reason="the list is not ready")
        unknown = await self.started("unknown", "mail.forgotten", queue="mail")
        await self.finish(ANVIL, unknown, Kind.UNKNOWN, delay=60.0)
        stopping = await self.started("stopping", "mail.send", '{"to":"jo@example.com"}', **mail)
        await self.store.cancel([stopping.id])
        running = await self.started("running", "mail.send", '{"to":"di@example.com"}', timeout=90.0, **mail)
        await self.store.checkpoint(ANVIL, running, Checkpoint('{"page":2}', 20, 50))
        await self.named("unique", "mail.digest", queue="mail", delay=3600.0, unique_key="digest:eu")
        await self.named(
            "scheduled", "mail.send", '{"to":"fay@example.com"}', run_at=clock.now + 7200, **mail
        )
        await self.named(
            "expiring", "mail.send", '{"to":"gil@example.com"}', queue="mail", delay=30.0, expires=60.0
        )
        await self.named(
            "ready", "mail.send", '{"to":"hal@example.com","*":[1]}', priority=Priority.HIGH, **mail
        )
        await self.one("mail.send", queue="mail", idempotency_key="order-1")
        await self.named("after", "mail.digest", queue="mail", after=(self.ids["running"], self.ids["ready"]))
        await self.one("mail.digest", queue="mail", replay_of=self.ids["succeeded"])
        await self._crashed()

    async def _crashed(self) -> None:
        """A job whose worker died with it, and a unique key whose jobs died again and again."""
        await self.named("crashed", "default.job", '{"n":1}')
        await self.run(LOST, self.ids["crashed"])
        await self.die(LOST)
        await self.hire(LOST + 10, "anvil-3", "default")
        again = await self.run(LOST + 10, self.ids["crashed"])
        await self.finish(LOST + 10, again, Kind.DEAD, error=Failure("MemoryError", ""), reason="exhausted")
        for _ in range(3):
            await self.named("parked", "sync", unique_key="sync", automatic=True)
            died = await self.run(ANVIL, self.ids["parked"])
            await self.finish(ANVIL, died, Kind.DEAD, error=TIMEOUT, reason="exhausted")

    async def _limits(self) -> None:
        """Jobs that wait aside, each for a reason of its own."""
        for at in range(3):
            await self.named(f"limited{at}", "report.build", queue="limited", concurrency_key="acme")
        for at in range(3):
            await self.named(f"ordered{at}", "orders.ship", queue="orders", ordering_key="order-7")
        await self.claim(ANVIL, "orders", limit=1)
        await self.named("backlog", "mail.send", '{"to":"ivy@example.com"}', queue="backlog", fair_key="acme")
        await self.named("gpu", "image.draw", queue="backlog", needs="gpu,tpu")
        await self.add("tiny.job", "tiny.job", queue="tiny")
        await self.named("governed", "api.call", queue="governed")
        await self.named("cooled", "api.call", queue="cooling")
        await self.store.drain("tokens", 3600.0, "acme")
        await self.named("tokens", "llm.ask", '{"tenant":"acme"}', queue="flaky")
        await self.store.claim(ANVIL, ["flaky"], 10, NEEDS)
        await clock.advance(1)

    async def _durable(self) -> None:
        """Jobs with steps, sleeps, waits, signals and streams, in the queue `slow`."""
        store = self.store
        stepped = await self.started("stepped", "orders.handle", '{"order":7}', queue="slow")
        for step in (
            Step(name="charge", result='{"paid":12.5}', code="charge"),
            Step(name="cool off", sleep=3600.0),
            Step(name="#2", result="null", code="notify:2"),
        ):
            await store.save_step(ANVIL, stepped, step)
        events = '["working ",{"tokens":3},"on it"]'
        await store.emit(ANVIL, [Emits(job=stepped, after=None, n=3, events=events)])
        await self.finish(ANVIL, stepped, Kind.RETRY, delay=0.0, error=TIMEOUT)
        stepped = await self.run(ANVIL, self.ids["stepped"], "slow")
        await store.emit(ANVIL, [Emits(job=stepped, after=None, n=1, events='["once more"]')])
        for name, wait in (
            ("waiting", Wait(name="approval", signal="approve", timeout=86400.0, shape=SHAPE)),
            ("waiting2", Wait(name="hello", signal="hello")),
        ):
            waits = await self.started(name, "orders.approve", '{"order":8}', queue="slow")
            await store.wait_for_signal(ANVIL, waits, wait)
            await store.signal(waits.id, "later", '"kept"')
            await self.finish(ANVIL, waits, Kind.SNOOZE, delay=86400.0)
        streamed = await self.started("streamed", "orders.talk", queue="slow")
        await store.emit(ANVIL, [Emits(job=streamed, after=None, n=2, events='["bye",[1,2]]')])
        await self.finish(ANVIL, streamed, result='"said"')

    async def _group(self) -> None:
        """A group that is open, with jobs that succeeded, died and wait; and one that is over."""
        for name in ("group", "over"):
            (end,) = await self.store.enqueue([end_of_group(f"{name} of June", "default")])
            self.ids[name] = end.id
            made = await self.store.enqueue_in_group(end.id, [job("image.draw"), job("image.draw")])
            good, bad = await self.claim(ANVIL, "default", limit=2)
            await self.finish(ANVIL, good, result="1")
            await self.finish(ANVIL, bad, Kind.DEAD, error=TIMEOUT)
            self.ids[f"{name}0"] = made[0].id
        (member,) = await self.store.enqueue_in_group(self.ids["group"], [job("image.draw", delay=900.0)])
        self.ids["member"] = member.id
        await self.store.close_group(self.ids["over"])
        await self.finish(ANVIL, await self.run(ANVIL, self.ids["over"]), result='{"succeeded":1,"dead":1}')

    async def _parents(self) -> None:
        """A parent with parts in every state, one that has succeeded, one that is dead."""
        await self._split("whole", 2, finalizer=True)
        await self._parts(succeeded=2)
        await self.store.promote()
        (last,) = await self.claim(ANVIL, "imports")
        await self.finish(ANVIL, last, result='{"rows":20}')
        await self._split("failed", 2)
        await self._parts(succeeded=1, dead=1)
        await self.store.promote()
        await self._split("parent", 8, parallel=4, tolerated=2)
        await self._parts(succeeded=2, dead=1)
        (busy,) = await self.claim(ANVIL, "imports", limit=1)
        self.ids["part"] = busy.id
        await self.store.checkpoint(ANVIL, busy, Checkpoint('{"n":4}', 4, 10))
        await self.store.promote()

    async def _split(self, name: str, parts: int, **plan: Any) -> None:
        fields = {"queue": "imports", "chunked": True, "tags": ("nightly",)}
        claimed = await self.started(name, "imports.load", '{"file":"orders.csv"}', **fields)
        spans = [PartPlan(f'{{"from":{at * 10},"to":{at * 10 + 10}}}', size=10) for at in range(parts)]
        await self.store.split(ANVIL, self.next_flush(ANVIL), claimed, Plan(parts=spans, **plan))

    async def _parts(self, *, succeeded: int, dead: int = 0) -> None:
        for kind in [Kind.SUCCEEDED] * succeeded + [Kind.DEAD] * dead:
            (part,) = await self.claim(ANVIL, "imports", limit=1)
            error = Failure("ValueError", "line 7 is no CSV") if kind is Kind.DEAD else None
            await self.finish(ANVIL, part, kind, error=error)

    async def _schedules(self) -> None:
        store, now = self.store, clock.now
        digest = NewSchedule(
            name="digest", cron="0 9 * * *", task="mail.digest", queue="mail", tz="Asia/Tokyo"
        )
        nightly = Options(tags=("nightly",), max_attempts=2)
        hourly = NewSchedule(
            name="hourly", cron="@every 1h", task="report.build", options=nightly, jitter=30.0
        )
        parked = NewSchedule(name="parked", cron="@daily", task="sync", options=Options(unique_key="sync"))
        paused = NewSchedule(name="paused", cron="*/5 * * * *", task="mail.send", payload='{"to":"x"}')
        for schedule, due in ((digest, 3600), (hourly, 60), (parked, 7200), (paused, 300)):
            await store.seed_schedule(schedule, now + due)
        broken = NewSchedule(name="broken", cron="61 * * * *", task="report.build")
        await store.seed_schedule(broken, None, "61 is no minute")
        await store.set_schedule("paused", paused=True)
        await store.put_schedule(replace(digest, cron="30 9 * * 1-5"), now + 5400, new=False)
        added = NewSchedule(name="added", cron="@daily", task="mail.send")
        await store.put_schedule(added, now + 60, new=True)
        await clock.advance(660)
        await store.promote()
        await store.fire(None, "hourly", now + 60, [now + 60], next_at=now + 3660, skipped=2)

    async def _measures(self) -> None:
        """Vitals and samples of three minutes, and an event of each kind that workers report."""
        now, store = clock.now, self.store
        for number in (1, 2, 3):
            at = int(now) // 60 * 60 - 60 * (4 - number)
            report = Report(samples=_samples(at, number))
            await store.report(ANVIL, number, report)
        told = [
            Event(at=now - 60 + at, kind=kind, text=f"a word on {kind}", queue="mail", worker="anvil-1")
            for at, kind in enumerate(KINDS)
        ]
        died = Event(at=now - 5, kind="dead", text="SMTPError: 550", job=self.ids["dead"], attempt=1, ms=31.5)
        told.append(replace(died, queue="mail", task="mail.send", worker="anvil-1"))
        busy = (Busy(self.ids["running"], "mail.send", "mail", now - 90),)
        vitals = Vitals(cpu=0.5, memory=2**27, running=2, slots=16, jobs=busy, lag=0.002, newest=now - 90)
        await store.report(ANVIL, 4, Report(events=told, vitals=vitals))
        await store.rollup()
        await store.assign(await self.lead(ANVIL), {ANVIL: {"mail": 4, "imports": 8}, BELLOWS: {"mail": 2}})
        for worker in (ANVIL, BELLOWS):
            await store.heartbeat(worker)
        await store.observe(0.004)
        await store.rotate()


def _samples(at: int, n: int) -> list[Sample]:
    counts = {"succeeded": 20 * n, "retry": n, "dead": 1, "looks": 2, "ready": 6 * n, "waited": 900 * n}
    waits, runs = buckets([4.0 * n] * 19 + [90.0]), buckets([30.0 * n] * 19 + [700.0])
    ended = Sample(at=at, queue="mail", task="mail.send", counts=counts, waits=waits, runs=runs)
    return [ended, Sample(at=at, queue="imports", task="imports.load", counts={"succeeded": n}, runs=runs)]
