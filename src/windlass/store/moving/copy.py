"""The copy of what waits in a SQLite store to PostgreSQL.

1. Nobody works on the source: it is refused while a worker is alive.
2. The source is shut: it takes no job and no worker from then on, so nothing comes after what was read, and
   nothing that was copied runs here as well.
3. Settings, parents with their parts, jobs in their order, dead letters where asked for, keys, schedules. The
   target marks each job by the source and its key there, in the transaction that adds it: a copy that was
   interrupted is repeated, and adds what is missing.

Identity is position, so a job has another id on the target; the copy tells which. Jobs that have ended well,
measures and timelines stay behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import msgspec

from windlass.errors import ConfigurationError
from windlass.store.fields import SUBJECTS, NewBudget, fields_of
from windlass.store.postgres import PostgresStore
from windlass.store.postgres.moving import Imported
from windlass.store.schedules import definition_of
from windlass.store.sqlite import SQLiteStore
from windlass.store.sqlite.moving import Kind

STEP: Final = 1000
"""Jobs in one transaction of the target."""


class Copied(msgspec.Struct, kw_only=True):
    """The result of a copy, or of a dry run."""

    jobs: int = 0
    """Added now."""
    parents: int = 0
    """Among them."""
    dead: int = 0
    """Among them."""
    repeated: int = 0
    """Had been added by an earlier call."""
    skipped: int = 0
    """Not added: a job of the target holds their unique key."""
    settings: int = 0
    """Queues, tasks, budgets and schedules that the target did not have."""
    kept: list[str] = msgspec.field(default_factory=list)
    """Settings that the target has already, otherwise; they stay as they are there."""


class Copy:
    """One copy from a source to a target, both open. `mapped` hears of each job's id in both, `progress` of
    how many have been copied."""

    def __init__(
        self,
        source: SQLiteStore,
        target: PostgresStore,
        *,
        mapped: Callable[[int, int, str], None] = lambda old, new, status: None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> None:
        self._source = source
        self._target = target
        self._mapped = mapped
        self._progress = progress
        self._name = ""
        self._statuses: Counter[str] = Counter()
        self._copied = Copied()

    async def run(self, place: str, *, dead: bool = False, force: bool = False) -> Copied:
        """Copy everything; `place` says where to, for those who come to the source later."""
        self._name = f"sqlite:{await self._source.identity()}"
        if not await self._source.closed():
            await self._close(f"its jobs are being copied to {place}; repeat the command to go on", force)
        await self._settings()
        await self._parents(dead)
        for kind in ("waiting", "after", "dead") if dead else ("waiting", "after"):
            await self._jobs(kind)
        await self._keys()
        await self._schedules()
        while (step := await self._target.promote()).due or step.admitted:
            pass
        await self._source.shut(
            f"its jobs were copied to {place}: use that store. To work here all the same, and run them "
            f"twice: windlass copy sqlite:///{self._source.path} --reopen"
        )
        done = self._copied
        done.repeated = self._statuses["repeated"]
        done.skipped = self._statuses["skipped"] + self._statuses["rerun"]
        done.dead = self._statuses["dead"]
        done.jobs = self._statuses["imported"] + done.dead
        return done

    async def _close(self, why: str, force: bool) -> None:
        while not await self._source.put_to_rest(force=force):
            await self._source.promote()
        await self._source.shut(why)

    # -- jobs -------------------------------------------------------------------------------------------

    async def _jobs(self, kind: Kind) -> None:
        start = -1
        while True:
            found, start = await self._source.leaving(kind, start, STEP)
            if not found:
                return
            answers = await self._target.import_jobs(self._name, [item for _, item in found])
            self._count([id for id, _ in found], answers)

    async def _parents(self, dead: bool) -> None:
        start = -1
        while (found := await self._source.leaving_parent(start, dead)) is not None:
            start, id, parent, parts, jobs = found
            answers = await self._target.import_parent(self._name, parent, parts, [item for _, item in jobs])
            self._copied.parents += answers[0][2] == "imported"
            self._count([id, *(job for job, _ in jobs)], answers)

    def _count(self, ids: list[int], answers: Imported) -> None:
        for old, (_, new, status) in zip(ids, answers, strict=False):  # of a parent left out, no parts
            self._statuses[status] += 1
            self._mapped(old, new, status)
        self._progress(sum(self._statuses.values()))

    async def _keys(self) -> None:
        start = ""
        while True:
            keys, deaths = await self._source.leaving_keys(start, STEP)
            if keys or deaths:
                await self._target.import_keys(self._name, keys, deaths)
            if not keys:
                return
            start = keys[-1]["key"]

    # -- settings ---------------------------------------------------------------------------------------

    async def _settings(self) -> None:
        """Copy settings that the target does not know yet; what somebody has set there stays."""
        source, target = self._source, self._target
        await self._set("queue", await source.queues(), await target.queues(), target.set_queue)
        await self._set("task", await source.tasks(), await target.tasks(), target.set_task)
        there = {each.name: each for each in await target.budgets()}
        for budget in await source.budgets():
            values = {name: getattr(budget, name) for name in NewBudget.__struct_fields__}
            if budget.name not in there:
                await target.declare_budget(NewBudget(**values))
                self._copied.settings += 1
            elif any(getattr(there[budget.name], name) != value for name, value in values.items()):
                self._copied.kept.append(f"budget {budget.name}")

    async def _set(self, subject: str, here: Any, there: Any, change: Any) -> None:
        fields = fields_of(SUBJECTS[subject])
        known = {each.name: {name: getattr(each, name) for name in fields} for each in there}
        default = {name: field.default for name, field in fields.items()}
        for each in here:
            wanted = {name: getattr(each, name) for name in fields}
            changes = {name: value for name, value in wanted.items() if value != default[name]}
            if known.get(each.name, default) == default:
                if each.name not in known or changes:
                    await change(each.name, changes)
                    self._copied.settings += 1
            elif known[each.name] != wanted:
                self._copied.kept.append(f"{subject} {each.name}")

    async def _schedules(self) -> None:
        """After the jobs: a schedule looks whether its last one has ended."""
        there = {each.name for each in await self._target.schedules()}
        last = await self._source.last_jobs()
        for each in await self._source.schedules():
            if each.name in there:
                continue
            if each.declared is not None:
                await self._target.seed_schedule(each.declared, each.next_at, each.error)
            if each.live:
                new = each.declared is None
                await self._target.put_schedule(definition_of(each), each.next_at, new=new)
            if each.paused:
                await self._target.set_schedule(each.name, paused=True)
            await self._target.import_schedule(
                self._name, each.name, each.last_at, last.get(each.name), each.skipped
            )
            self._copied.settings += 1


def require_kinds(source: str, target: str) -> None:
    """Say which way a copy goes, where it cannot go this way. Both are kinds of stores."""
    if (source, target) != ("sqlite", "postgresql"):
        raise ConfigurationError(
            "windlass copy goes from a SQLite file to PostgreSQL: write windlass copy sqlite:///jobs.db "
            "postgresql://…. SQLite to SQLite is windlass backup; PostgreSQL to PostgreSQL is pg_dump, see "
            "docs/guides/copies.md"
        )
