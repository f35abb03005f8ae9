"""The state machine: producers, workers, operators and time, acting on two stores at once.

Each action does one thing on both sides and compares the answers; after each, everything unfinished is
compared, too. Time moves only in steps of 100 s while every delay ends 50 s after such a step, so the
seconds that a real run takes never decide what is due, and the comparison is exact also on a server with a
clock of its own.

There is one rule that draws an action, and not a rule per action: Hypothesis switches rules off by the dozen
in each run to vary them, and a run without claims, or without finishes, would compare nothing of worth.
"""

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.model.gated import LIMITS
from tests.model.keyed import Keyed
from tests.model.side import GOES, End
from tests.model.steps import ACTIONS, THEMES, WINDOW, Draw, action, no_crashed_job_is_ready, somebody_runs
from tests.model.wishes import (
    GATED,
    QUEUES,
    SET_ASIDE,
    STEERING,
    STEP,
    fair_job,
    jobs_of,
    wishes,
)
from windlass.core.retry import Backoff, DeathPolicy
from windlass.core.states import Kind, Priority, State
from windlass.store.records import JobChange

CHANGEABLE = (State.READY, State.SCHEDULED, State.RETRYING)


class StoreMachine(Keyed):
    """Drives a store beside the oracle. Subclasses say which store."""

    @initialize(themes=st.sampled_from(THEMES))
    def declare(self, themes: tuple[str, ...]) -> None:
        self.themes = themes
        for queue in (*QUEUES, *SET_ASIDE):
            # Cool-downs end, as delays do, half a step after a step of the clock.
            self.both(
                "set_queue",
                queue,
                {"window": WINDOW, "dead_retention": 3050.0, "backoff": False, "cool_base": STEP * 1.5},
            )
        self.declare_budgets()
        self.new_worker()

    @rule(data=st.data())
    def step(self, data: Draw) -> None:
        possible = [
            name
            for name, (_, theme, when) in ACTIONS.items()
            if hasattr(self, name) and theme in (None, *self.themes) and when(self)
        ]
        weighted = [
            name for name in possible for _ in range(ACTIONS[name][0] * (2 if ACTIONS[name][1] else 1))
        ]
        getattr(self, data.draw(st.sampled_from(weighted), label="action"))(data)
        self.catch_up()

    # -- producers --------------------------------------------------------------------------------------

    @action(5, theme="lanes")
    def enqueue(self, data: Draw) -> None:
        wanted = data.draw(st.lists(wishes(), min_size=1, max_size=4), label="jobs")
        delicate = [wish for wish in wanted if wish["on_conflict"] != "skip" and wish["unique_key"]]
        if self.alone and delicate:
            self.both("promote", 1000)
            wanted = delicate[:1]
        self.both("enqueue", jobs_of(wanted, self.numbers, self.delay))

    @action(1, theme="lanes")
    def enqueue_fair(self, data: Draw) -> None:
        """More jobs of several keys than the window lets in."""
        queue = data.draw(st.sampled_from(QUEUES), label="queue")
        keys = data.draw(st.lists(st.sampled_from("fgh"), min_size=4, max_size=8), label="keys")
        self.both("enqueue", [fair_job(next(self.numbers), queue, key) for key in keys])

    # -- workers ----------------------------------------------------------------------------------------

    @action(1, lambda machine: len(machine.alive) < 3)
    def register(self, data: Draw) -> None:
        self.new_worker()

    @action(6, lambda machine: machine.plain, theme="lanes")
    def claim(self, data: Draw) -> None:
        """One queue at a time: between queues a tie in waiting time is nobody's promise, nor is one between
        jobs that need something and others."""
        worker = self.worker(data, self.plain)
        ready = {record.queue for record in self.model.seen.values() if record.state is State.READY}
        ready -= set(SET_ASIDE) if self.late else set()
        queue = data.draw(st.sampled_from(sorted(ready) or QUEUES), label="queue")
        # How a claim ends before a crashed job is the store's own affair; one job at a time there is no
        # choice.
        limits = [1, 2, WINDOW] if self.late else [1, 2, WINDOW, 10]
        limit = data.draw(st.sampled_from(limits), label="limit") if no_crashed_job_is_ready(self) else 1
        answer = self.both("claim", worker, [queue], limit)
        # Now and then the answer never arrives; `recover` finds those jobs.
        if data.draw(st.sampled_from([True, True, True, False]), label="arrives"):
            self.known[worker] += [job[0] for job in answer]

    @action(1, lambda machine: machine.plain and no_crashed_job_is_ready(machine), theme="lanes")
    def claim_bounded(self, data: Draw) -> None:
        """At most so many of a queue, however many are asked for in all."""
        worker = self.worker(data, self.plain)
        queue = data.draw(st.sampled_from(QUEUES), label="queue")
        bound = data.draw(st.integers(0, WINDOW), label="bound")
        answer = self.both("claim", worker, {queue: bound}, 10)
        self.known[worker] += [job[0] for job in answer]

    @action(2, no_crashed_job_is_ready, theme="lanes")
    def claim_everything(self, data: Draw) -> None:
        """All queues at once, without a limit that could cut at a tie: the order holds within each lane."""
        worker = self.worker(data)
        expected, answer = (side.do("claim", worker, QUEUES, 1000) for side in (self.model, self.other))
        while self.late and len(answer) < len(expected):  # it has not come to those who wait for their turn
            self.other.do("promote", 1000)
            more = self.other.do("claim", worker, QUEUES, 1000)
            assert more, f"the model gives {expected}, the store {answer}"
            answer += more
        for lane in {job[1:4] for job in [*expected, *answer]}:
            given, due = ([job[0] for job in jobs if job[1:4] == lane] for jobs in (answer, expected))
            assert given == due, f"lane {lane}: the model gives {due}, the store {given}"
        self.known[worker] += [job[0] for job in expected]

    @action(8, somebody_runs)
    def finish(self, data: Draw) -> None:
        worker = self.worker(data, [worker for worker in self.alive if self.known[worker]])
        size = data.draw(st.integers(1, 8), label="flush")
        self.end(data, worker, data.draw(st.permutations(self.known[worker]), label="jobs")[:size])

    @action(1, lambda machine: machine.model.sent)
    def send_again(self, data: Draw) -> None:
        """The answer to the last flush was lost. The worker may be gone by now."""
        self.both("resend", self.worker(data, sorted(self.model.sent)))

    @action(1, lambda machine: machine.model.claimed)
    def finish_for_another(self, data: Draw) -> None:
        """An outcome for a claim that is, or was, somebody else's."""
        worker = self.worker(data)
        owners = sorted(key for key in self.model.claimed if key[0] != worker)
        if owners:
            owner, label = data.draw(st.sampled_from(owners), label="claim")
            self.both("finish_foreign", worker, owner, next(self.flushes[worker]), label)

    @action(1)
    def recover(self, data: Draw) -> None:
        """A worker lists what it holds, and releases what it does not know."""
        worker = self.worker(data)
        held = self.both("held", worker)
        assert set(self.known[worker]) <= set(held)
        lost = [End(label, Kind.RELEASED) for label in held if label not in self.known[worker]]
        if lost:
            self.both("finish", worker, next(self.flushes[worker]), lost)

    @action(2, lambda machine: machine.model.claimed)
    def checkpoint(self, data: Draw) -> None:
        """For a job it runs, or did once: the store knows the difference. So it does with what that emits,
        perhaps for the second time [W3]."""
        worker, label = data.draw(st.sampled_from(sorted(self.model.claimed)), label="claim")
        number = next(self.numbers)
        self.both("checkpoint", worker, label, f"[{number}]")
        self.both("emit", worker, label, 1 + number % 2, number % 3 == 0)

    @action(1)
    def heartbeat(self, data: Draw) -> None:
        self.both("heartbeat", self.worker(data, [*self.alive, *self.gone]))
        self.both("workers")

    @action(1, lambda machine: len(machine.alive) > 1)
    def retire(self, data: Draw) -> None:
        busy = [worker for worker in self.alive if self.known[worker]]
        worker = self.worker(data, [*busy, *busy, *self.alive])
        self.both("retire", worker)
        self.declare_dead(worker)

    @action(2, somebody_runs)
    def crash_and_rescue(self, data: Draw) -> None:
        """A worker falls silent and is rescued, perhaps not for the first time."""
        busy = [worker for worker in self.alive if self.known[worker]]
        worker = self.worker(data, [*busy, *busy, *self.alive, *self.gone])
        poison = data.draw(st.sampled_from([2, 3, 3, 4]), label="poison")
        self.both("rescue", worker, DeathPolicy(poison, Backoff(base=150.0, jitter=0.0)))
        if worker in self.alive:
            self.declare_dead(worker)

    # -- operators and time -----------------------------------------------------------------------------

    @action(3, lambda machine: machine.model.ids)
    def manage(self, data: Draw) -> None:
        verb, worthwhile = data.draw(st.sampled_from(STEERING), label="verb")
        pool = sorted(self.model.ids)
        likely = sorted(label for label, record in self.model.seen.items() if record.state in worthwhile)
        if data.draw(st.booleans(), label="likely"):
            pool = likely or pool
        labels = data.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3, unique=True), label="jobs")
        labels.sort(key=self.other.ids.__getitem__)  # a store may take them one by one, in its own order
        labels = self._one_of_each_order(labels)
        expected, answer = (side.do("manage", verb, labels) for side in (self.model, self.other))
        for label in labels:
            # The model forgets at once; a log may remember a finished job until its segment turns.
            late = {"cancel": "finished", "delete": "deleted", "retry": "unchanged"}[verb]
            allowed = {expected[label], late} if label in self.forgotten else {expected[label]}
            assert answer[label] in allowed, f"{verb} {label}: the model says {expected}, the store {answer}"

    @action(3, lambda machine: any(record.state in CHANGEABLE for record in machine.model.seen.values()))
    def change(self, data: Draw) -> None:
        """A waiting job gets another queue, priority, time or arguments [E8]; now and then it waits no
        more."""
        seen = self.model.seen
        pool = sorted(seen) if data.draw(st.sampled_from([True, False, False]), label="any") else []
        likely = sorted(label for label, record in seen.items() if record.state in CHANGEABLE)
        label = data.draw(st.sampled_from(pool or likely), label="job")
        queues = next(
            (group for group in (QUEUES, GATED) if seen[label].queue in group), (seen[label].queue,)
        )
        wait = data.draw(st.sampled_from([None, None, 0, 1, 2]), label="steps")
        change = JobChange(
            queue=data.draw(st.sampled_from([None, *queues]), label="queue"),
            priority=data.draw(st.sampled_from([None, Priority.HIGH, Priority.LOW]), label="priority"),
            delay=None if wait is None else self.delay(wait),
            options={"max_attempts": data.draw(st.integers(1, 4), label="attempts")},
        )
        expected, answer = (side.do("change", label, change) for side in (self.model, self.other))
        allowed = {expected, "ended"} if label in self.forgotten else {expected}
        assert answer in allowed, f"change {label}: the model says {expected}, the store {answer}"

    def _one_of_each_order(self, labels: list[str]) -> list[str]:
        """No two jobs of one ordering key: whether the second had its turn before it went with the first,
        which counts for the watermark, is the store's own affair [F6]."""
        kept: dict[object, str] = {}
        for label in labels:
            record = self.model.seen.get(label)
            key = None if record is None else record.options.ordering_key
            kept.setdefault(label if record is None or key is None else (record.queue, key), label)
        return list(kept.values())

    @action(2)
    def advance(self, data: Draw) -> None:
        self.both("advance", data.draw(st.sampled_from([1, 1, 2, 5, 16]), label="steps") * STEP)

    @action(1, lambda machine: "budgets" not in machine.themes)
    def set_clock_back(self, data: Draw) -> None:
        """[fault 31] By one step. Somebody looks after the store before anything else: who wrote down a time
        that is yet to come learns of it then. Not where budgets are used: a bucket goes back to where it was
        last written, and when that was is the store's own affair."""
        self.both("advance", -STEP)
        for _ in range(2):
            for side in (self.model, self.other):
                side.do("promote", 1000)

    @action(1, theme="lanes")
    def limit_a_queue(self, data: Draw) -> None:
        """Set, changed or taken away, whoever runs [F3]."""
        queue = data.draw(st.sampled_from(QUEUES), label="queue")
        self.both("set_queue", queue, {"concurrency": data.draw(LIMITS, label="limit")})

    @action(3)
    def promote(self, data: Draw) -> None:
        """In small steps only where one lane at most has jobs to admit: nobody promises which is first, or
        whether who waits at a gate counts."""
        ready = [record for record in self.model.seen.values() if record.state is State.READY]
        keyed = [record for record in ready if record.options.fair_key]
        lanes = {(record.queue, record.priority, record.options.needs) for record in keyed}
        limits = [1, 2, 1000] if len(lanes) < 2 else [1000]
        limit = data.draw(st.sampled_from(limits), label="limit")
        if self.has_late_jobs() or any(record.queue in SET_ASIDE for record in ready):
            limit = 1000  # a smaller one would leave the two apart
        self.both("promote", limit)

    @action(1)
    def count_ends(self, data: Draw) -> None:
        """[M7] Somebody counts a little of what has ended."""
        self.other.do("count_ends", data.draw(st.integers(1, 3)))

    @action(2)
    def rotate(self, data: Draw) -> None:
        before = {label for label, record in self.model.seen.items() if record.state in GOES}
        self.both("rotate")
        self.forgotten |= before

    @action(1)
    def expire(self, data: Draw) -> None:
        self.both("expire")

    @action(1, theme="lanes")
    def pause(self, data: Draw) -> None:
        """For a while: paused for good, a queue would have nothing more to compare."""
        queue = data.draw(st.sampled_from(QUEUES), label="queue")
        self.both("set_queue", queue, {"paused": True})
        for worker in self.alive:
            assert self.both("claim", worker, [queue], 10) == []
        self.both("set_queue", queue, {"paused": False})

    @action(1, theme="lanes")
    def cool(self, data: Draw) -> None:
        """A handler was throttled; sometimes an operator ends the cool-down at once."""
        queue = data.draw(st.sampled_from(QUEUES), label="queue")
        self.both("throttle", queue, data.draw(st.sampled_from([None, 50.0, 250.0]), label="hint"))
        for worker in self.alive:
            assert self.both("claim", worker, [queue], 10) == []
        self.both("warm", queue, data.draw(st.booleans(), label="force"))

    @action(1, theme="lanes")
    def warm(self, data: Draw) -> None:
        self.both("warm", data.draw(st.sampled_from(QUEUES), label="queue"), False)

    @action(1)
    def coordinate(self, data: Draw) -> None:
        """Somebody stands for coordinator, assigns slots under some term, and may give it up."""
        candidate = data.draw(st.integers(1, 3), label="candidate")
        term = self.both("lead", candidate, data.draw(st.sampled_from([0.5, 2.5]), label="term") * STEP)
        queues = st.dictionaries(st.sampled_from(QUEUES), st.integers(0, 4), min_size=1)
        slots = data.draw(st.dictionaries(st.sampled_from(self.alive), queues), label="slots")
        self.both("assign", term if term is not None else self.term, slots)
        self.term = term if term is not None else self.term
        self.both("cluster_view", self.alive)
        if data.draw(st.sampled_from([True, False, False]), label="resigns"):
            self.both("resign", data.draw(st.integers(1, 3), label="who"))
