"""The state machine: producers, workers, operators and time, acting on two stores at once.

Each rule does one thing on both sides and compares the answers; after each rule everything unfinished is
compared, too. Time moves only in steps of 100 s while every delay ends 50 s after such a step, so the seconds
that a real run takes never decide what is due, and the comparison is exact on a server with a clock of its own.
"""

import asyncio
import itertools
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.conformance.kit import HandClock
from tests.model.side import GOES, Answer, End, Side
from windlass.core.retry import Backoff, DeathPolicy
from windlass.core.states import Kind, Priority, State
from windlass.store.memory import MemoryStore
from windlass.store.records import NewJob, Options
from windlass.store.settings import StoreSettings

STEP = 100.0
SETTINGS = StoreSettings(ageing_step=1000.0, idempotency_retention=2050.0, retention=1e9)
QUEUES = ("a", "b")
KINDS = (
    Kind.SUCCEEDED, Kind.SUCCEEDED, Kind.RETRY, Kind.DEAD, Kind.CANCELLED, Kind.SNOOZE, Kind.THROTTLED,
    Kind.UNKNOWN, Kind.RELEASED,
)  # fmt: skip

queues = st.sampled_from(QUEUES)
steps = st.sampled_from([0, 0, 1, 2, 15])
few = st.integers(1, 3)


@st.composite
def wishes(draw: st.DrawFn) -> dict[str, Any]:
    """What a producer wants of one job; the machine adds the label and the exact delay."""
    kind = draw(st.sampled_from(["plain", "plain", "delayed", "unique", "unique", "fair", "once", "any"]))
    every = kind == "any"
    return {
        "queue": draw(queues),
        "priority": draw(st.sampled_from([Priority.NORMAL, Priority.NORMAL, Priority.HIGH, Priority.LOW])),
        "steps": draw(st.integers(1, 3)) if kind == "delayed" else draw(steps) if every else 0,
        "unique_key": draw(st.sampled_from("xyz")) if kind == "unique" or every else None,
        "on_conflict": draw(st.sampled_from(["skip", "replace", "reject"])),
        "fair_key": draw(st.sampled_from(["f", "g", "h"])) if kind == "fair" or every else None,
        "idempotency_key": draw(st.sampled_from("rst")) if kind == "once" or every else None,
        "max_attempts": draw(few),
    }


class StoreMachine(RuleBasedStateMachine):
    """Drives a store beside the memory model. Subclasses say which store."""

    subject: ClassVar[Any]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        clock = HandClock()
        self.model = Side(MemoryStore(SETTINGS, clock), clock, self.loop)
        self.other = self.loop.run(self.open_subject())
        self.numbers = itertools.count(1)
        self.delays = itertools.count(1)
        self.ids = itertools.count(1)
        self.flushes: dict[int, itertools.count[int]] = {}
        self.alive: list[int] = []
        self.gone: list[int] = []
        self.known: dict[int, list[str]] = {}
        self.forgotten: set[str] = set()

    async def open_subject(self) -> Side:
        """A fresh store with its clock."""
        raise NotImplementedError

    async def close_subject(self) -> None:
        """Let go of it."""
        raise NotImplementedError

    def both(self, name: str, *args: Any) -> Answer:
        """Do the same on both sides; the answers must be equal."""
        expected = self.model.do(name, *args)
        answer = self.other.do(name, *args)
        assert answer == expected, f"{name}{args}: the model says {expected}, the store {answer}"
        return expected

    def delay(self, steps: int) -> float:
        """A delay that ends between two steps of the clock, a little later than every delay before it."""
        return steps * STEP - STEP / 2 + next(self.delays) * 0.001 if steps else 0.0

    def label(self, data: st.DataObject, labels: list[str]) -> str:
        return data.draw(st.sampled_from(sorted(labels)), label="job")

    @initialize()
    def declare(self) -> None:
        for queue in QUEUES:
            self.both("set_queue", queue, {"window": 3, "dead_retention": 3050.0})
        self.register()

    # -- producers --------------------------------------------------------------------------------------

    @rule(wanted=st.lists(wishes(), min_size=1, max_size=4))
    def enqueue(self, wanted: list[dict[str, Any]]) -> None:
        jobs = []
        for wish in wanted:
            number = next(self.numbers)
            options = {name: wish[name] for name in ("unique_key", "fair_key", "max_attempts")}
            jobs.append(
                NewJob(
                    task=f"j{number}",
                    payload=f"[{number}]",
                    queue=wish["queue"],
                    priority=wish["priority"],
                    delay=self.delay(wish["steps"]) or None,
                    options=Options(**options),
                    on_conflict=wish["on_conflict"],
                    idempotency_key=wish["idempotency_key"],
                )
            )
        self.both("enqueue", jobs)

    @rule(n=st.integers(1, 6), queue=queues)
    def enqueue_plain(self, n: int, queue: str) -> None:
        jobs = [NewJob(task=f"j{next(self.numbers)}", payload="{}", queue=queue) for _ in range(n)]
        self.both("enqueue", jobs)

    # -- workers ----------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.alive) < 3)
    @rule()
    def register(self) -> None:
        worker = next(self.ids)
        self.both("register", worker)
        self.alive.append(worker)
        self.known[worker] = []
        self.flushes[worker] = itertools.count(1)

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), queue=queues, limit=st.sampled_from([1, 2, 3, 10]), lost=st.sampled_from([0, 0, 0, 1]))
    def claim(self, data: st.DataObject, queue: str, limit: int, lost: int) -> None:
        """One queue at a time: between queues a tie in waiting time is nobody's promise."""
        worker = data.draw(st.sampled_from(self.alive), label="worker")
        answer = self.both("claim", worker, [queue], limit)
        if not lost:  # else the answer never arrived; `recover` finds it
            self.known[worker] += [job[0] for job in answer]

    @precondition(lambda self: self.alive and not self.suspects())
    @rule(data=st.data())
    def claim_everything(self, data: st.DataObject) -> None:
        """All queues at once, without a limit that could cut at a tie: the order holds within each lane."""
        worker = data.draw(st.sampled_from(self.alive), label="worker")
        expected, answer = (side.do("claim", worker, QUEUES, 1000) for side in (self.model, self.other))
        for lane in {job[1:3] for job in expected}:
            assert [job for job in answer if job[1:3] == lane] == [job for job in expected if job[1:3] == lane]
        assert len(answer) == len(expected)
        self.known[worker] += [job[0] for job in expected]

    def suspects(self) -> bool:
        """Whether a job that has seen a death could be claimed; it ends the answer, wherever it stands."""
        return any(record.deaths and record.state is State.READY for record in self.model.seen.values())

    @precondition(lambda self: any(self.known[worker] for worker in self.alive))
    @rule(data=st.data(), n=st.integers(1, 8))
    def finish(self, data: st.DataObject, n: int) -> None:
        worker = data.draw(st.sampled_from([w for w in self.alive if self.known[w]]), label="worker")
        ends = []
        for label in data.draw(st.permutations(self.known[worker]), label="jobs")[:n]:
            kind = data.draw(st.sampled_from(KINDS), label="kind")
            again = kind in (Kind.RETRY, Kind.SNOOZE, Kind.THROTTLED, Kind.UNKNOWN)
            wait = data.draw(steps, label="steps") if again else 0
            ends.append(End(label, kind, self.delay(wait)))
        self.both("finish", worker, next(self.flushes[worker]), ends)
        done = {end.label for end in ends}
        self.known[worker] = [label for label in self.known[worker] if label not in done]

    @precondition(lambda self: self.model.sent)
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        """The answer to the last flush was lost. The worker may be gone by now."""
        worker = data.draw(st.sampled_from(sorted(self.model.sent)), label="worker")
        self.both("resend", worker)

    @precondition(lambda self: self.alive and self.model.claimed)
    @rule(data=st.data())
    def finish_for_another(self, data: st.DataObject) -> None:
        """An outcome for a claim that is, or was, somebody else's."""
        worker = data.draw(st.sampled_from(self.alive), label="worker")
        owners = sorted(key for key in self.model.claimed if key[0] != worker)
        if owners:
            owner, label = data.draw(st.sampled_from(owners), label="claim")
            self.both("finish_foreign", worker, owner, next(self.flushes[worker]), label)

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def recover(self, data: st.DataObject) -> None:
        """A worker lists what it holds, and releases what it does not know."""
        worker = data.draw(st.sampled_from(self.alive), label="worker")
        held = self.both("held", worker)
        assert set(self.known[worker]) <= set(held)
        lost = [End(label, Kind.RELEASED) for label in held if label not in self.known[worker]]
        if lost:
            self.both("finish", worker, next(self.flushes[worker]), lost)

    @precondition(lambda self: self.model.claimed)
    @rule(data=st.data())
    def checkpoint(self, data: st.DataObject) -> None:
        """For a job it runs, or did once: the store knows the difference."""
        worker, label = data.draw(st.sampled_from(sorted(self.model.claimed)), label="claim")
        self.both("checkpoint", worker, label, f"[{next(self.numbers)}]")

    @rule(data=st.data())
    def beat(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from([*self.alive, *self.gone]), label="worker")
        self.both("beat", worker)
        self.both("workers")

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def retire(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(self.alive), label="worker")
        self.both("retire", worker)
        self.bury(worker)

    @rule(data=st.data(), poison=st.sampled_from([2, 3, 3, 4]))
    def crash_and_rescue(self, data: st.DataObject, poison: int) -> None:
        """A worker falls silent and is rescued; a second rescue finds nothing more."""
        worker = data.draw(st.sampled_from([*self.alive, *self.gone]), label="worker")
        policy = DeathPolicy(poison, Backoff(base=150.0, jitter=0.0))
        self.both("rescue", worker, policy)
        if worker in self.alive:
            self.bury(worker)

    def bury(self, worker: int) -> None:
        self.alive.remove(worker)
        self.gone.append(worker)
        self.known[worker] = []

    # -- operators and time -----------------------------------------------------------------------------

    @precondition(lambda self: self.model.ids)
    @rule(data=st.data(), verb=st.sampled_from(["cancel", "delete", "retry", "retry"]))
    def steer(self, data: st.DataObject, verb: str) -> None:
        labels = data.draw(
            st.lists(st.sampled_from(sorted(self.model.ids)), min_size=1, max_size=3, unique=True), label="jobs"
        )
        expected, answer = (side.do("steer", verb, labels) for side in (self.model, self.other))
        for label in labels:
            # The model forgets at once; a log may remember a finished job until its segment turns.
            late = {"cancel": "finished", "delete": "deleted", "retry": "unchanged"}[verb]
            allowed = {expected[label], late} if label in self.forgotten else {expected[label]}
            assert answer[label] in allowed, f"{verb} {label}: the model says {expected}, the store {answer}"

    @rule(n=st.sampled_from([1, 1, 2, 5, 16]))
    def advance(self, n: int) -> None:
        self.both("advance", n * STEP)

    @rule(limit=st.sampled_from([1, 2, 1000, 1000]))
    def promote(self, limit: int) -> None:
        self.both("promote", limit)

    @rule()
    def rotate(self) -> None:
        before = {label for label, record in self.model.seen.items() if record.state in GOES}
        self.both("rotate")
        self.forgotten |= before

    @rule()
    def expire(self) -> None:
        self.both("expire")

    @rule(queue=queues, paused=st.booleans())
    def pause(self, queue: str, paused: bool) -> None:
        self.both("set_queue", queue, {"paused": paused})

    # -- after every step -------------------------------------------------------------------------------

    @invariant()
    def the_same_jobs_in_the_same_states(self) -> None:
        for side in (self.model, self.other):
            self.loop.run(side.look())
        expected, actual = self.model.unfinished(), self.other.unfinished()
        assert actual == expected
        ended = self.other.finished()
        for label, answer in self.model.finished().items():
            assert ended.get(label) == answer, f"{label}: the model says {answer}, the store {ended.get(label)}"
        extra = ended.keys() - self.model.finished().keys() - self.forgotten
        assert not extra, f"the model does not know {extra}"

    @invariant()
    def the_same_depth(self) -> None:
        expected, actual = (self.loop.run(side.depth()) for side in (self.model, self.other))
        assert counts(actual) == counts(expected)
        for queue, depth in expected.items():
            oldest = actual[queue].oldest
            assert (oldest is None) == (depth.oldest is None)
            assert oldest is None or depth.oldest is None or abs(oldest - depth.oldest) < STEP / 2

    def teardown(self) -> None:
        try:
            self.depth_is_a_scan()
        finally:
            self.loop.run(self.close_subject())
            self.loop.close()

    def depth_is_a_scan(self) -> None:
        """[M1] The counts, which are kept without scanning, equal a scan of every job."""
        scan = {queue: dict.fromkeys(COUNTED, 0) for queue in QUEUES}
        for record in self.loop.run(self.other.look()).values():
            if str(record.state) in COUNTED:
                scan[record.queue][str(record.state)] += 1
        assert counts(self.loop.run(self.other.depth())) == scan


COUNTED = ("ready", "running", "scheduled", "retrying", "dead")


def counts(depths: dict[str, Any]) -> dict[str, dict[str, int]]:
    """The countable part of a depth."""
    return {queue: {state: getattr(depth, state) for state in COUNTED} for queue, depth in depths.items()}
