"""Gates, passes and budgets: the invariants after any sequence of operations, that no limit is ever passed,
and that everybody in a line gets his turn in the end [F1] [F3] [F6]."""

from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.conformance.kit import HandClock
from tests.store.sqlite.invariants import check
from tests.store.sqlite.kit import foreign, job, opened
from tests.store.sqlite.test_families import Crowd
from windlass.core.flow.bucket import AHEAD
from windlass.core.states import Priority
from windlass.store.fields import NewBudget
from windlass.store.records import Need, Needs, Outcome, WorkerInfo
from windlass.store.settings import StoreSettings
from windlass.store.sqlite import SQLiteStore
from windlass.store.sqlite.claims import MAX_SENT_AWAY
from windlass.store.sqlite.flow import waiting_lists

LIMIT = 2


class Queue(Crowd):
    """The same crowd, with keys and limits on nearly all they do."""

    needs: ClassVar[Needs] = {
        "paid": [Need("a", argument="who")],
        "dear": [Need("b", 2), Need("a", argument="who")],
    }

    async def begin(self) -> None:
        await super().begin()
        await self.store.declare_budget(NewBudget(name="a", rate=0.5, burst=2, breaker=3))
        await self.store.declare_budget(NewBudget(name="b", rate=0.5, burst=3))

    def acts(self) -> tuple[Callable[[], Awaitable[None]], ...]:
        return (*super().acts(), self.enqueue, self.enqueue, self.limit, self.spend, self.tell, self.look)

    def fields(self) -> dict[str, Any]:
        pick = self.random
        fields = super().fields()
        fields["task"] = pick.choice(("t", "t", "paid", "dear"))
        fields["payload"] = f'{{"who": "{pick.choice("xy")}"}}'
        if pick.random() < 0.4:
            fields["ordering_key"] = pick.choice("op")
        if pick.random() < 0.4:
            fields |= {"concurrency_key": pick.choice("kl"), "key_limit": LIMIT}
        if pick.random() < 0.3:
            fields["task_limit"] = 3
        if pick.random() < 0.1:
            fields["delay"] = 40.0
        return fields

    async def limit(self) -> None:
        settings = {"concurrency": self.random.choice((None, 1, 4)), "key_concurrency": None}
        await self.store.set_task(self.random.choice(("t", "paid")), settings)

    async def spend(self) -> None:
        budget, key = self.random.choice((("a", "x"), ("a", "y"), ("b", "")))
        if (await self.store.take(budget, 1, key)).granted and self.random.random() < 0.3:
            await self.store.give_back(budget, 1, key)
        elif self.random.random() < 0.2:
            await self.store.drain(budget, 20, self.random.choice((None, key)))

    async def tell(self) -> None:
        await self.store.report_calls("a", self.random.randint(0, 1), self.random.randint(0, 2))

    async def look(self) -> None:
        """What others see is what is there; and nobody runs beside another of his ordering key."""
        for gate in await self.store.gates():
            assert gate.waiting > 0
        for name, ready in (await self.store.depth()).items():
            assert name != "default" or ready.ready >= sum(gate.waiting for gate in await self.store.gates())
        keys = Counter(job.options.ordering_key for job in self.held if job.options.ordering_key)
        assert not keys or max(keys.values()) == 1

    async def come_to_an_end(self) -> None:
        for task in ("t", "paid"):
            await self.store.set_task(task, {"concurrency": None})
        await self.store.set_budget("a", {"breaker": 0})
        await super().come_to_an_end()


def limits_hold(path: Path) -> None:
    """No more of a key are beyond its gate than it lets through."""
    connection = foreign(path)
    found = connection.execute("SELECT gate, count(*) FROM windlass_pass GROUP BY gate").fetchall()
    connection.close()
    assert all(int(str(n)) <= LIMIT for gate, n in found if str(gate).startswith("key:")), found


@pytest.mark.parametrize("seed", range(5))
async def test_any_sequence_keeps_the_gates_true_and_ends(tmp_path: Path, seed: int) -> None:
    """[I9] [I10] [I11] [I12] [F1] [F3] [F6] Passes name who is there, limits hold, and every line comes to an
    end."""
    path, clock = tmp_path / "w.db", HandClock()
    async with opened(path, settings=StoreSettings(retention=300.0, park_after=2), clock=clock) as store:
        await store.set_queue("default", {"dead_retention": 500.0, "window": 3})
        crowd = Queue(store, clock, seed)
        await crowd.begin()
        for _ in range(5):
            for _ in range(40):
                await crowd.act()
            check(path)
            limits_hold(path)
        await crowd.come_to_an_end()
        check(path)
        assert await store.gates() == []
        connection = foreign(path)
        assert connection.execute("SELECT count(*) FROM windlass_pass").get == 0
        connection.close()


async def test_a_limit_reaches_those_who_are_in_the_lane_already(tmp_path: Path) -> None:
    """[F3] Jobs that run count, and those that wait are held back when they would be claimed."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.register(WorkerInfo(id=1))
        await store.enqueue([job() for _ in range(5)] + [job("other")])
        (claim,) = await store.claim(1, ["default"], 1)
        await store.set_task("t", {"concurrency": 2})
        check(path)
        claims = await store.claim(1, ["default"], 10)
        assert [claimed.task for claim in claims for claimed in claim.jobs] == ["t", "other"]
        check(path)
        (gate,) = await store.gates()
        assert (gate.name, gate.passes, gate.waiting) == ("task:t", 2, 3)
        await store.finish(1, 1, [Outcome(job=claim.jobs[0])])
        ((next_one,),) = [claim.jobs for claim in await store.claim(1, ["default"], 10)]
        assert next_one.task == "t"
    check(path)


async def test_a_raised_limit_of_keys_lets_their_lines_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[F3] At once, and where there are too many lines for that, with promotion; other tasks keep theirs."""
    monkeypatch.setattr(waiting_lists, "MAX_GATES", 5)
    path = tmp_path / "w.db"
    async with opened(path) as store:
        keys = [str(n) for n in range(8)]
        await store.enqueue([job(concurrency_key=key) for key in keys for _ in range(3)])
        await store.enqueue([job("other", concurrency_key="mine") for _ in range(3)])
        await store.register(WorkerInfo(id=1))
        assert await claimed(store) == 9
        await store.set_task("t", {"key_concurrency": 2})
        assert await claimed(store) == 5
        for _ in range(2):
            await store.promote()
        assert await claimed(store) == 3
        check(path)
        await store.set_task("t", {"key_concurrency": None})
        assert await claimed(store) == 0
    check(path)


async def claimed(store: SQLiteStore) -> int:
    """How many can be claimed."""
    return sum(len(claim.jobs) for claim in await store.claim(1, ["default"], 10_000))


async def test_a_crowd_of_keys_hides_no_other_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[F3] [F6] A listing looks at so many gates of each kind."""
    monkeypatch.setattr(waiting_lists, "MAX_LISTED", 3)
    async with opened(tmp_path / "w.db") as store:
        await store.enqueue([job(ordering_key=str(n)) for n in range(10) for _ in range(2)])
        await store.enqueue([job("u", task_limit=1) for _ in range(2)])
        names = [gate.name for gate in await store.gates()]
        assert "task:u" in names
        assert len(names) == 4


async def test_a_lane_of_jobs_without_tokens_is_cleared_step_by_step(tmp_path: Path) -> None:
    """[F1] One claim sends a bounded number of them away, and still comes to the next lane."""
    path = tmp_path / "w.db"
    needs = {"paid": [Need("nobody knows it")]}
    async with opened(path) as store:
        await store.register(WorkerInfo(id=1))
        await store.enqueue([job("paid", priority=Priority.URGENT) for _ in range(2 * MAX_SENT_AWAY)])
        await store.enqueue([job("free", priority=Priority.LOW)])
        (claim,) = await store.claim(1, ["default"], 20, needs)
        assert [claimed.task for claimed in claim.jobs] == ["free"]
        (gate,) = await store.gates()
        assert gate.waiting == MAX_SENT_AWAY
        assert await store.claim(1, ["default"], 20, needs) == []
        assert (await store.gates())[0].waiting == 2 * MAX_SENT_AWAY
    check(path)


async def test_tokens_put_by_for_one_are_taken_by_no_other(tmp_path: Path) -> None:
    """[F1] Who was let out of the line gets them, though another comes first through a lane before his."""
    path, clock = tmp_path / "w.db", HandClock()
    needs = {"paid": [Need("b")]}
    async with opened(path, clock=clock) as store:
        await store.register(WorkerInfo(id=1))
        await store.declare_budget(NewBudget(name="b", rate=1.0, burst=1))
        await store.enqueue([job("paid", payload=f"[{n}]") for n in range(2)])
        (claim,) = await store.claim(1, ["default"], 10, needs)
        assert [claimed.payload for claimed in claim.jobs] == ["[0]"]
        await clock.advance(1)
        assert (await store.promote()).admitted == 1
        await store.enqueue([job("paid", priority=Priority.URGENT, payload='["pushes in"]')])
        (claim,) = await store.claim(1, ["default"], 10, needs)
        assert [claimed.payload for claimed in claim.jobs] == ["[1]"]
    check(path)


async def test_what_was_put_by_is_free_when_its_job_runs_without_it(tmp_path: Path) -> None:
    """[F1] Its claimer said that the task needs nothing."""
    path, clock = tmp_path / "w.db", HandClock()
    needs = {"paid": [Need("b")]}
    async with opened(path, clock=clock) as store:
        await store.register(WorkerInfo(id=1))
        await store.declare_budget(NewBudget(name="b", rate=1.0, burst=1))
        await store.enqueue([job("paid"), job("paid")])
        assert len(await store.claim(1, ["default"], 10, needs)) == 1
        await clock.advance(1)
        assert (await store.promote()).admitted == 1
        assert len(await store.claim(1, ["default"], 10)) == 1
        check(path)
        await store.enqueue([job("paid")])
        assert len(await store.claim(1, ["default"], 10, needs)) == 1
    check(path)


async def test_promotion_tells_when_there_will_be_tokens(tmp_path: Path) -> None:
    """[F1] [F7] Where all it can hold is put by for others, when it is worth looking whether they came; where
    only a probe can bring it, when another one may be let out in its stead."""
    path, clock = tmp_path / "w.db", HandClock()
    needs = {"paid": [Need("b")]}
    async with opened(path, clock=clock) as store:
        await store.register(WorkerInfo(id=1))
        await store.declare_budget(NewBudget(name="b", rate=0.1, burst=1, breaker=1, breaker_pause=60.0))
        await store.enqueue([job("paid") for _ in range(3)])
        assert len(await store.claim(1, ["default"], 10, needs)) == 1
        assert (await store.promote()).next_in == pytest.approx(10 - AHEAD, abs=0.1)
        await clock.advance(10)
        promoted = await store.promote()
        assert promoted.admitted == 1
        assert promoted.next_in == pytest.approx(5)
        assert await store.report_calls("b", 0, 1) == "open"
        assert await store.claim(1, ["default"], 10, needs) == []
        assert (await store.promote()).next_in == pytest.approx(60, abs=0.1)
        await clock.advance(60)
        promoted = await store.promote()  # the probe
        assert promoted.admitted == 1
        assert promoted.next_in == pytest.approx(5, abs=0.1)
        assert len(await store.claim(1, ["default"], 10, needs)) == 1
        assert await store.report_calls("b", 1, 0) == "closed"
    check(path)


async def test_a_job_that_waits_for_two_budgets_gets_both(tmp_path: Path) -> None:
    """[F1] While it waits for the second, the first is there for others."""
    path, clock = tmp_path / "w.db", HandClock()
    needs = {"dear": [Need("b"), Need("a")], "cheap": [Need("a")]}
    async with opened(path, clock=clock) as store:
        await store.register(WorkerInfo(id=1))
        await store.declare_budget(NewBudget(name="a", rate=1.0, burst=1))
        await store.declare_budget(NewBudget(name="b", rate=1.0, burst=1))
        assert (await store.take("a", 1)).granted
        await store.enqueue([job("dear")])
        assert await store.claim(1, ["default"], 10, needs) == []
        await clock.advance(1)
        await store.drain("b", 5)
        assert (await store.promote()).admitted == 1
        assert await store.claim(1, ["default"], 10, needs) == []
        assert [gate.name for gate in await store.gates()] == ["budget:b/"]
        check(path)
        await store.enqueue([job("cheap"), job("cheap")])
        (claim,) = await store.claim(1, ["default"], 10, needs)
        assert [claimed.task for claimed in claim.jobs] == ["cheap"]
        tasks: list[str] = []
        for _ in range(2):  # the other one was in line for the first before
            await clock.advance(10)
            await store.promote()
            claims = await store.claim(1, ["default"], 10, needs)
            tasks += [claimed.task for claim in claims for claimed in claim.jobs]
            check(path)
        assert tasks == ["cheap", "dear"]
    check(path)
