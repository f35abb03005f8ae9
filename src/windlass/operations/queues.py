"""Queues: how each stands, its settings, its gates and ordering keys [K1] [K2] [F6]. What changes one refuses
a name that nobody has declared: a mistyped one must not become a queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Self, TypeAlias

import msgspec

from windlass.core.flow.gates import budget_of, reason
from windlass.core.names import check_name
from windlass.core.rollup import MINUTE, rate
from windlass.core.states import State
from windlass.errors import QueueNotFound
from windlass.operations.operation import Help, Limit, Name, Ops, Reads, Settings, Subject, Text
from windlass.operations.refusals import check_bounds, refusing
from windlass.presentation.audit import changes_in_words
from windlass.presentation.cluster_state import ClusterState, read_full_state
from windlass.presentation.text import shaped
from windlass.presentation.waiting import budget_in_words, load_in_words, queue_in_words
from windlass.store.fields import QueueSettings
from windlass.store.protocol import Store
from windlass.store.records import BudgetRecord, GateRecord, JobFilter, QueueRecord, Watermark

queues: Final = Subject("queues")
MAX_RATES: Final = 50
"""Queues whose rate is read: the busiest."""
MAX_HELD: Final = 5
"""Queues without a running job of which one job is asked what it waits for."""
_LONGEST_NAME: Final = 80
"""Characters that an error quotes of a name."""


class QueueView(QueueRecord, frozen=True, kw_only=True):
    """A queue: its settings, how it stands, also as text, and who serves it."""

    ready: int
    running: int
    scheduled: int
    retrying: int
    dead: int
    oldest: float | None
    """Seconds for which the oldest ready job has waited."""
    offered: int
    pending_parts: int
    """Parts that their parents have not offered yet; `ready` counts them, too."""
    estimate: bool
    """True if one of these counts is some seconds old; so it is only where it is above a thousand [M1]."""
    needs: dict[str, int]
    """Ready jobs in lanes whose jobs need abilities, by these [K14]."""
    runnable: int
    """How many more slots would run now."""
    slots: int | None
    workers: int
    state_text: str
    """Why no job of it starts, if so: "paused", "throttled, resumes in 12 s", "waits for tokens"."""
    load_text: str
    """The state as text, and what limits it or refuses jobs."""
    per_minute: float | None = None
    """Jobs that succeeded per minute, over the last one or two; null before anything was measured."""

    @classmethod
    def of(cls, state: ClusterState, name: str, rates: Mapping[str, float], held: Mapping[str, str]) -> Self:
        """Return the view of a queue; see `rates` and `held`."""
        queue = state.queue(name)
        return shaped(
            cls,
            queue,
            state.depth_of(name),
            runnable=state.runnable(name),
            slots=state.slots().get(name),
            workers=state.view.serving.get(name, 0),
            state_text=queue_in_words(queue) or held.get(name, "") or state.stuck_in_words(name),
            load_text=load_in_words(queue),
            per_minute=rates.get(name),
        )


class Queues(msgspec.Struct, frozen=True):
    """Every queue, by name."""

    queues: list[QueueView]


class WatermarkView(msgspec.Struct, frozen=True, kw_only=True):
    """How far an ordering key has come [F6]."""

    queue: str
    key: str
    position: int
    at: str | None
    waiting: int
    age: float

    @classmethod
    def of(cls, mark: Watermark) -> Self:
        """Return the view of a record."""
        return shaped(cls, mark, age=round(mark.age, 3))


class Watermarks(msgspec.Struct, frozen=True):
    """The ordering keys of a queue, by key."""

    watermarks: list[WatermarkView]


class GateView(GateRecord, frozen=True, kw_only=True):
    """A gate that jobs wait at, and why."""

    reason: str

    @classmethod
    def of(cls, gate: GateRecord, budgets: Iterable[BudgetRecord]) -> Self:
        """Return the view of a record; of a budget's gate it says why the budget grants nothing."""
        why = reason(gate.name)
        if (name := budget_of(why)) is not None:
            more = budget_in_words(next((each for each in budgets if each.name == name), None))
            why += f" ({more})" if more else ""
        return shaped(cls, gate, oldest=round(gate.oldest, 3), reason=why)


class Gates(msgspec.Struct, frozen=True):
    """Gates with waiting jobs, the longest wait first."""

    gates: list[GateView]


Changes: TypeAlias = Annotated[Mapping[str, Any], Settings(QueueSettings)]
Known: TypeAlias = Annotated[Name, Help("", unit="name")]
Names: TypeAlias = Annotated[list[Name], Help("", unit="name", option="NAME...")]
OneKey: TypeAlias = Annotated[Text | None, Help("Only this ordering key.")]

# -- views ----------------------------------------------------------------------------------------------


@queues.get("/queues")
async def list_queues(ops: Ops) -> Queues:
    """List queues: their jobs, oldest wait, workers and settings

    The state of each says what holds it up or limits it."""
    state = await ops.state()
    found = await rates(ops, state), await held(ops, state)
    return Queues([QueueView.of(state, name, *found) for name in state.names()])


@queues.get("/queues/{name}")
async def show_queue(ops: Ops, name: Known) -> QueueView:
    """Get a queue: its settings, and how it stands

    Also its cool-down, pressure, what was refused, and its governor."""
    return await _view(ops, await _state_with(ops, name), name)


@queues.get("/queues/{name}/watermarks")
async def list_watermarks(
    ops: Ops,
    name: Annotated[Name, Help("", unit="name", option="QUEUE")],
    key: OneKey = None,
    limit: Limit = 100,
) -> Watermarks:
    """List the watermarks of a queue's ordering keys

    All jobs up to a key's position have ended."""
    await _state_with(ops, name)
    found = await ops.store.watermarks(name, key=key, limit=limit)
    return Watermarks([WatermarkView.of(mark) for mark in found])


@queues.get("/gates")
async def list_gates(ops: Ops, limit: Limit = 100) -> Gates:
    """List gates with waiting jobs, the longest wait first

    Keys, limits, ordering keys and budgets. "through" counts the jobs that have passed the gate: they run, or
    are about to."""
    found = await ops.shared(("gates", limit), 1.0, lambda store: store.gates(limit))
    budgets = await ops.shared("budgets", 1.0, lambda store: store.budgets())
    return Gates([GateView.of(gate, budgets) for gate in found])


# -- actions --------------------------------------------------------------------------------------------


@queues.put("/queues/{name}")
async def set_queue(ops: Ops, name: Known, changes: Changes) -> QueueView:
    """Change the settings of a queue, or declare it

    What is not given stays as it is; `none` brings a default back."""
    with refusing():
        await change(ops, name, changes)
    return await _view(ops, await read_full_state(ops.store), name)


@queues.post("/queues/{name}/pause")
async def pause_queue(ops: Ops, name: Known) -> QueueView:
    """Pause a queue; running jobs finish"""
    return (await _shown(ops, await set_paused(ops, [name], True))).queues[0]


@queues.command()
async def pause_queues(ops: Ops, names: Names) -> Queues:
    """Pause queues; running jobs finish

    All of them, or none where one does not exist."""
    return await _shown(ops, await set_paused(ops, names, True))


@queues.post("/queues/{name}/resume")
async def resume_queue(ops: Ops, name: Known) -> QueueView:
    """Resume a queue"""
    return (await _shown(ops, await set_paused(ops, [name], False))).queues[0]


@queues.command()
async def resume_queues(ops: Ops, names: Names) -> Queues:
    """Resume queues"""
    return await _shown(ops, await set_paused(ops, names, False))


@queues.post("/queues/{name}/warm")
async def warm_queue(ops: Ops, name: Known) -> QueueView:
    """End the cool-down of a throttled queue now"""
    await find_queues(ops.store, [name])
    await ops.store.warm(name, force=True)
    ops.did("warmed: its cool-down has ended", queue=name, said=f"{name} is no longer cooling")
    return await _view(ops, await read_full_state(ops.store), name)


# -- what handles call, too -------------------------------------------------------------------------------


async def change(ops: Ops, name: str, changes: Mapping[str, Any]) -> QueueRecord:
    """Change the settings of a queue, or declare it. Raises ValueError for what makes no sense."""
    check_name("queue", name)
    check_bounds(changes)
    record = await ops.store.set_queue(name, changes)
    ops.did(f"set: {changes_in_words(changes)}", queue=name)
    return record


async def set_paused(ops: Ops, names: Sequence[str], paused: bool) -> list[QueueRecord]:
    """Pause or resume queues, all or none. Raises QueueNotFound."""
    await find_queues(ops.store, names)
    did, records = "paused" if paused else "resumed", []
    for name in names:
        records.append(await ops.store.set_queue(name, {"paused": paused}))
        ops.did(did, queue=name)
    ops.said = f"{', '.join(names)} {did}"
    return records


async def find_queues(store: Store, names: Iterable[str]) -> list[QueueRecord]:
    """Return the queues of these names, in their order. Raises QueueNotFound where one is not declared: a
    mistyped name must not become a queue."""
    there = {record.name: record for record in await store.queues()}
    wanted = list(names)
    if unknown := [repr(name)[:_LONGEST_NAME] for name in wanted if name not in there]:
        raise QueueNotFound(
            f"no queue {', '.join(unknown)}; there are {', '.join(sorted(there)) or 'none'}; "
            "`windlass queue set NAME` or `app.queue(NAME).ensure()` declares one"
        )
    return [there[name] for name in wanted]


# -- what they read -------------------------------------------------------------------------------------


async def rates(reads: Reads, state: ClusterState, only: str | None = None) -> dict[str, float]:
    """Return how many jobs succeeded in a minute, by queue: of the busiest, or of one. Each is one small
    read."""
    busiest = sorted(state.depth, key=lambda name: -state.depth[name].offered)[:MAX_RATES]
    names = busiest if only is None else [only]

    async def read(store: Store) -> dict[str, float]:
        now = await store.now()
        found = {}
        for name in names:
            if rows := await store.measured(MINUTE, now - 180.0, now + MINUTE, queue=name):
                found[name] = round(rate(rows, now) * 60, 1)
        return found

    return await reads.shared(("rates", only), 10.0, read)


async def held(reads: Reads, state: ClusterState, only: str | None = None) -> dict[str, str]:
    """Return what the jobs of queues wait for that stand still, or of one of these: the newest tells for all.
    Nothing is read while no gate has a waiting job."""
    names = [name for name in _standing(state) if only in (None, name)][:MAX_HELD] if state.gates else []

    async def read(store: Store) -> dict[str, str]:
        found = {}
        for name in names:
            page = await store.jobs(JobFilter(queue=name, state=State.READY), 1)
            if page.jobs and page.jobs[0].reason:
                found[name] = page.jobs[0].reason
        return found

    return await reads.shared(("held", only), 5.0, read) if names else {}


def _standing(state: ClusterState) -> list[str]:
    """Return the queues that are served and give out jobs, have some ready, and run none; the longest wait
    first."""
    found = [
        name
        for name, depth in state.depth.items()
        if depth.ready
        and not depth.running
        and state.view.serving.get(name, 0)
        and not queue_in_words(state.queue(name))
    ]
    return sorted(found, key=lambda name: -(state.depth[name].oldest or 0.0))


async def _state_with(ops: Ops, name: str) -> ClusterState:
    """Return the state, with the queue of this name in it. Raises QueueNotFound."""
    state = await ops.state()
    if name not in state.names():  # it may have been declared a moment ago
        await find_queues(ops.store, [name])
        state = await read_full_state(ops.store)
    return state


async def _shown(ops: Ops, records: Iterable[QueueRecord]) -> Queues:
    state = await read_full_state(ops.store)
    return Queues([await _view(ops, state, record.name) for record in records])


async def _view(ops: Ops, state: ClusterState, name: str) -> QueueView:
    return QueueView.of(state, name, await rates(ops, state, name), await held(ops, state, name))
