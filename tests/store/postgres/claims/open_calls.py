"""A queue with one of everything that waits, and a call of each public function that touches some of it.

`Scene` is one such queue, and `RUNS` says what must become of its jobs by the chores alone. `calls` says how
each function that users, producers or handlers may call in a transaction of their own is called for a
scene."""

import secrets
import time
from typing import Final

from tests.store.postgres.kit import Base
from windlass.core.states import Kind
from windlass.store.postgres import PostgresStore
from windlass.store.records import ClaimedJob, NewSchedule, Outcome, PartPlan, Plan

NEEDS: Final = "CALL windlass.claim($1, $2, 10, 100, p_needs => $3)"


class Scene:
    """A queue, `-new` beside it, which nobody has declared, and `-gov`, which has limits."""

    def __init__(self, base: Base, store: PostgresStore, worker: int) -> None:
        self.base = base
        self.store = store
        self.worker = worker
        self.queue = f"s{secrets.token_hex(4)}"
        self.queues = [self.queue, f"{self.queue}-new", f"{self.queue}-gov"]
        self.id: dict[str, int] = {}
        self.running: dict[str, ClaimedJob] = {}
        self.names: dict[str, str] = {}

    async def build(self) -> "Scene":
        """Bring everything there."""
        look, queue, id = self.base.look, self.queue, self.id
        lane = await self.base.lane(queue)
        await look.run(f"""SELECT windlass.set_queue('{queue}', '{{"dead_retention": 0}}')""")
        for name in ("runs", "succeeded", "dead", "dead_too", "parent", "runs_too"):
            id[name] = await look.enqueue(f"{queue}.{name}", queue=queue)
        for job in (await self.base.claim(lane, self.worker, 6)).jobs:
            self.running[job.task.partition(".")[2]] = job
        await self._finish(self.running["succeeded"])
        await self._finish(self.running["dead"], self.running["dead_too"], kind=Kind.DEAD)
        plan = Plan(parts=[PartPlan("[0]", 1), PartPlan("[1]", 1), PartPlan("[2]", 1)], parallel=1)
        await self.store.split(
            self.worker, next(self.base._flushes[self.worker]), self.running["parent"], plan
        )
        (part,) = (await self.base.claim(lane, self.worker, 6)).jobs
        await self._finish(part)  # by SQL alone: its parent hears of it from promote
        for name, sql in (
            ("waits", ""),
            ("twin", ", unique_key => '{q}-u'"),
            ("successor", ", unique_key => '{q}-u', on_conflict => 'replace'"),
            ("due", ", delay => '1 microsecond'"),
            ("later", ", delay => '1 hour'"),
            ("fair", ", fair_key => 'f'"),
            ("keyed", ", concurrency_key => '{q}-c'"),
            ("ordered", ", ordering_key => 'o'"),
            ("after", f", after => '{{{{{id['succeeded']}}}}}'"),
            ("not_after", f", after => '{{{{{id['dead']}}}}}', otherwise => 'cancel'"),
            ("once", ", idempotency_key => '{q}-i'"),
        ):
            id[name] = await look.value(
                f"SELECT windlass.enqueue('{queue}.{name}', queue => '{queue}'{sql.format(q=queue)})"
            )
        id["group"] = await look.value(
            f"SELECT job FROM windlass.enqueue_one('{queue}.group', '{{}}', '{queue}', 2::smallint, NULL, "
            """NULL, '{"group_end": true, "otherwise": "run"}', 'skip', NULL)"""
        )
        await self._stand_in_line_for_tokens()
        await self.store.seed_schedule(
            NewSchedule(name=queue, cron="* * * * *", task=f"{queue}.fired", queue=queue), time.time() - 1
        )
        id["new"] = await look.enqueue(f"{queue}.new", queue=f"{queue}-new")
        await look.run(
            f"""SELECT windlass.set_queue('{queue}-gov', '{{"governor": true, "concurrency": 5}}')"""
        )
        await self.base.lane(f"{queue}-gov")
        id["governed"] = await look.enqueue(f"{queue}.governed", queue=f"{queue}-gov")
        await look.run(f"""SELECT windlass.set_queue('{queue}', '{{"max_depth": 1000}}')""")
        await look.run(
            f"SELECT windlass.change_pressure('{queue}', 'none', 'soft')"
        )  # promote finds that wrong
        return self

    async def _stand_in_line_for_tokens(self) -> None:
        look, queue = self.base.look, self.queue
        lane = await self.base.lane(queue, 1)
        await look.run(f"""SELECT windlass.declare_budget('{queue}', '{{"rate": 0.001, "burst": 2}}')""")
        await look.run(f"SELECT windlass.take_tokens('{queue}', 2)")
        self.id["tokens"] = await look.enqueue(f"{queue}.tokens", queue=queue, priority="high")
        await look.row(NEEDS, lane, self.worker, f'{{"{queue}.tokens": [{{"budget": "{queue}", "n": 1}}]}}')
        await look.run(f"SELECT windlass.give_tokens('{queue}', 1)")

    async def _finish(self, *jobs: ClaimedJob, kind: Kind = Kind.SUCCEEDED) -> None:
        await self.base.finish(self.worker, jobs, kind)

    async def got(self) -> set[str]:
        """What can be claimed by now, by name; it is finished at once."""
        found: set[str] = set()
        while claims := await self.store.claim(self.worker, self.queues, 1000):
            for claim in claims:
                jobs = claim.jobs
                found.update(job.task.partition(".")[2] for job in jobs)
                await self.store.finish(
                    self.worker, next(self.base._flushes[self.worker]), [Outcome(job=job) for job in jobs]
                )
        return found


RUNS: Final = {
    "waits", "successor", "due", "fair", "keyed", "ordered", "after", "once", "parent", "tokens", "fired",
    "new", "governed",
}  # fmt: skip
"""The jobs of a scene that run by the chores alone: `parent` are its parts."""


def calls(scene: Scene) -> dict[str, list[str]]:
    """Calls by their function. All of one function are made in one transaction."""
    q, id = scene.queue, scene.id
    run = scene.running["runs"]
    own = f"{scene.worker}, {run.id}, {run.lane}, {run.claim}, {run.seq}"
    return {
        "add_to_group": [f"add_to_group({id['group']}, '{{{id['waits']}}}')"],
        "close_group": [f"close_group({id['group']})"],
        "cancel": [
            f"cancel({id[name]})"
            for name in (
                "parent", "waits", "later", "fair", "keyed", "new", "runs", "not_after", "twin", "successor"
            )
        ],
        "change_pressure": [f"change_pressure('{q}', 'soft', 'full')"],
        "checkpoint": [f"checkpoint({own}, '{{}}', 1, 2)"],
        "declare_budget": [f"""declare_budget('{q}-b', '{{"rate": 1, "burst": 1}}')"""],
        "declare_lane": [f"declare_lane('{q}-new', 2::smallint)"],
        "delete": [
            f"delete({id[name]})"
            for name in ("parent", "waits", "later", "dead", "succeeded", "ordered", "tokens", "runs")
        ],
        "depth": ["depth()"],
        "drain_budget": [
            f"drain_budget('{q}', 0, '')",
            f"drain_budget('{q}', 0)",
        ],
        "drop_budget": [f"drop_budget('{q}')"],
        "forget_import": [f"forget_import('{q}')"],
        "import_jobs": [f"""import_jobs('{q}', '[{{"key": "1", "task": "t", "queue": "{q}-new"}}]')"""],
        "published_queue": ["published_queue('t')"],
        "drop_schedule": [f"drop_schedule('{q}')"],
        "enqueue": [
            f"enqueue('t', queue => '{q}'{more})"
            for more in (
                "", ", delay => '1 microsecond'", f", unique_key => '{q}-new'", f", unique_key => '{q}-u'",
                f", idempotency_key => '{q}-i'", f", concurrency_key => '{q}-c'", ", fair_key => 'f'",
                f", unique_key => '{q}-u', on_conflict => 'replace'",
                ", ordering_key => 'o'", f", after => '{{{id['runs']}}}'",
            )
        ],
        "enqueue_many": [
            f"enqueue_many('{q}', 2::smallint, '{{t}}', array_fill('{{}}'::text, '{{1000}}'))",
        ],
        "enqueue_mixed": [
            "enqueue_mixed(array_fill('t'::text, '{3}'), array_fill('{}'::text, '{3}'), "
            f"'{{{q},{q},{q}-mixed}}', '{{2,2,2}}', '{{NULL,60,NULL}}', '{{NULL,NULL,NULL}}', "
            f"'{{NULL,NULL,NULL}}', '{{skip,skip,skip}}', '{{{q}-m,{q}-n,NULL}}', '{{f,f,f}}')"
        ],
        "enqueue_one": [
            f"enqueue_one('t', '{{}}', '{q}-new', 1::smallint, NULL, NULL, NULL, 'skip', '{q}-o')"
        ],
        "give_tokens": [f"give_tokens('{q}', 1)"],
        "settle_tokens": [f"settle_tokens('{q}', 1)"],
        "check_call_load": [f"check_call_load('{{{q}}}', '{{2}}', '{{k}}')"],
        "lease_tokens": [f"lease_tokens('{q}', '', '{{1,2}}', 5, 1, 0)"],
        "lock_keys": [f"lock_keys('{{{q}-i,{q}-l}}', '{{{q}-u,{q}-l}}')"],
        "note_refused": [f"note_refused('{q}', 1, false)"],
        "pressure_of": [f"pressure_of('{q}')"],
        "redrive": [f"redrive({id['parent']})"],
        "retry": [f"retry({id[name]})" for name in ("dead", "later", "new", "not_after")],
        "save_steps": [
            f"save_steps({scene.worker}, ARRAY[{run.lane}], ARRAY[{run.claim}::bigint], ARRAY[1], "
            f"ARRAY[{run.seq}::bigint], ARRAY[{run.id}::bigint], ARRAY['one'], ARRAY['code'], ARRAY[1], "
            f"ARRAY['{{}}'], ARRAY[{sleep}::float8])"
            for sleep in ("NULL", "60")
        ],
        "send_signal": [
            f"send_signal({id['runs']}, 'go', '1', {alone}, NULL, NULL)" for alone in ("true", "false")
        ],
        "send_signals": [
            f"send_signals(ARRAY[{id['runs']}, {id[name]}]::bigint[], ARRAY['go', 'go'], ARRAY['1', '2'])"
            for name in ("runs", "later")
        ],
        "signal": [f"signal({id[name]}, 'go', '1')" for name in ("runs", "later", "new")],
        "spend_tokens": [
            f"spend_tokens({scene.worker}, {run.lane}, {run.claim}, {run.seq}, '{q}', '', 1, 2, 0)"
        ],
        "set_budget": [f"""set_budget('{name}', '{{"rate": 5}}')""" for name in (q, f"{q}-b")],
        "set_parent": [f"set_parent({id['parent']}, 2)"],
        "set_queue": [
            f"""set_queue('{name}', '{changes}')"""
            for name, changes in (
                (q, '{"window": 3}'), (f"{q}-new", "{}"),
                (f"{q}-gov", '{"governor": false, "concurrency": null}'),
            )
        ],
        "set_schedule": [f"set_schedule('{q}', true)"],
        "set_task": [f"""set_task('{q}.runs', '{{"concurrency": 1, "key_concurrency": 1}}')"""],
        "statuses_of": [f"statuses_of('{{{id['waits']},{id['keyed']}}}')"],
        "take_tokens": [f"take_tokens('{q}')"],
        "task_depths": ["task_depths(100)"],
        "report_calls": [f"report_calls('{q}', 0, 1)"],
        "wait_for_signals": [
            f"wait_for_signals({scene.worker}, ARRAY[{run.lane}], ARRAY[{run.claim}::bigint], ARRAY[1], "
            f"ARRAY[{run.seq}::bigint], ARRAY[{run.id}::bigint], ARRAY[1], ARRAY['{name}'], ARRAY['go'], "
            "ARRAY[60::float8], ARRAY[NULL::text])"
            for name in ("wait:go", "wait:go#2")
        ],
    }  # fmt: skip
