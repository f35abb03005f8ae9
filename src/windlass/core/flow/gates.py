"""Gates: where keyed and limited jobs wait aside until there is room for them [F1] [F3] [F6].

A gate has a waiting list of held jobs and a number of passes. A job walks through its gates one by one, the
narrowest first, and holds the pass of each while it waits at the next: so a wide gate's list never holds more
jobs of a narrow one than the narrow one lets through, and no list holds up another. After the
last gate it waits for the turn of its fair key, if it has one, and then stands in its lane like any other.

A pass is a row that names its job, never a count: what has ended cannot go on holding a place. Names:

    order:<queue>/<ordering key>    one pass, kept until the job has ended for good: a retry keeps its place
    key:<concurrency key>           as many passes as the job says (`key_limit`), or its task's setting
    task:<task>                     as many as the task's setting or the code says
    budget:<budget>/<key>           as many as it has tokens; only for jobs that a claim found none for
    over:<budget>/<key>             none: they need more than the budget can hold, until its burst is raised
    shut:<place>                    none: nobody runs such jobs of their queue, so they leave their slots to
                                    others; a place is a queue and what they need, see `place_name`
    fair                            no gate, but the ring of fair keys

A worker may be handed several jobs of one waiting list, to run one after the other: a run. All of them have
passes, so that it does not matter which of them ends last, and together they take one place.

All but the order pass are given back when an attempt ends and the job is put off, or waits for tokens: else
those who wait for a budget would keep the slots from everybody. A job that is offered again at once keeps
them. Let out of a waiting list for tokens, a job goes to the first gate that it has no pass of, and then to
its lane.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from windlass.core.abilities import in_words

FAIR: Final = "fair"


class Gated(Protocol):
    """The options of a job that decide its gates."""

    @property
    def ordering_key(self) -> str | None: ...
    @property
    def concurrency_key(self) -> str | None: ...
    @property
    def key_limit(self) -> int: ...
    @property
    def task_limit(self) -> int | None: ...
    @property
    def fair_key(self) -> str | None: ...


class Gate(NamedTuple):
    """A gate on a job's way."""

    name: str
    limit: int
    """How many jobs may be beyond it at a time."""


def gates_of(
    queue: str, task: str, options: Gated, concurrency: int | None = None, key_concurrency: int | None = None
) -> list[Gate]:
    """The gates of a job, in the order in which it passes them. The last two are its task's settings, which
    override what the job says."""
    gates: list[Gate] = []
    if options.ordering_key is not None:
        gates.append(Gate(order_gate(queue, options.ordering_key), 1))
    if options.concurrency_key is not None:
        gates.append(Gate(f"key:{options.concurrency_key}", key_concurrency or options.key_limit))
    limit = concurrency or options.task_limit
    if limit is not None:
        gates.append(Gate(f"task:{task}", limit))
    return gates


def order_gate(queue: str, key: str) -> str:
    """The gate of an ordering key."""
    return f"order:{queue}/{key}"


def budget_gate(budget: str, key: str = "") -> str:
    """The gate of those who wait for tokens."""
    return f"budget:{budget}/{key}"


def over_gate(gate: str) -> str:
    """The waiting list beside a budget's own, for jobs that need more tokens than it can hold [F1]."""
    return "over:" + gate.removeprefix("budget:")


def shut_gate(place: str) -> str:
    """The waiting list of jobs that leave their slots to others while nobody runs their queue [F3]."""
    return f"shut:{place}"


def is_slots(gate: str) -> bool:
    """Return whether a gate gives slots, of a concurrency key or a task."""
    return gate.startswith(("key:", "task:"))


def is_own(gate: str) -> bool:
    """Return whether a gate comes from a key of the job, and not from its task."""
    return gate.startswith(("order:", "key:"))


def keeps(gate: str) -> bool:
    """Return whether a pass outlives the attempt, until the job has ended for good."""
    return gate.startswith("order:")


def waits_again(gate: str, *, is_first: bool, at_once: bool) -> bool:
    """Return whether a job of a run that did not end for good goes back to its waiting list, at its turn. Of
    an ordering key the first that is left keeps the pass, and nobody comes before it [F6]; at other gates who
    is offered `at_once` would take a second place beside those that run."""
    return not is_first if keeps(gate) else at_once


_TOKENS: Final = "waits for tokens of budget "


def budget_of(reason: str | None) -> str | None:
    """The budget whose tokens a job waits for, by its reason; None: it waits for none."""
    if reason is None or not reason.startswith(_TOKENS):
        return None
    return reason.removeprefix(_TOKENS).partition(",")[0]


def reason(gate: str) -> str:  # noqa: PLR0911 - one for each kind
    """Why a job on this waiting list waits [M4]."""
    kind, _, rest = gate.partition(":")
    match kind:
        case "order":
            queue, _, key = rest.partition("/")
            return f"waits for the jobs before it of ordering key {key!r} in queue {queue}"
        case "key":
            return f"waits for a slot of concurrency key {rest!r}"
        case "task":
            return f"waits for a slot of task {rest}"
        case "budget":
            budget, _, key = rest.partition("/")
            return f"{_TOKENS}{budget}" + (f", key {key!r}" if key else "")
        case "over":
            budget, _, key = rest.partition("/")
            where = budget + (f", key {key!r}" if key else "")
            return f"needs more tokens than budget {where} can hold: raise its burst"
        case "shut":
            queue, _, needs = rest.partition(" ")
            able = f" with {in_words(needs.split(','))}" if needs else ""
            return f"waits for queue {queue}, which is paused or served by no worker{able}"
        case _:
            return "waits for the turn of its fair key"
