"""The flow of a task: the budgets it draws from, how many of its jobs run at a time, and which
of its arguments are keys [F1] [F3] [F6]. Read once, when the task is registered.

    @app.task(budgets=["github", Cost("openai", tokens="max_tokens")])
    @app.task(budgets=["github"], concurrency=10, concurrency_key="tenant", key_concurrency=2)
    async def sync(tenant: str, repo: str) -> None: ...

A key names an argument; the key of a job is then its task and that argument's value. `using(ordering_key=…)`
and its siblings give the key itself and win.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypedDict

import msgspec

from windlass.core.names import check_name
from windlass.errors import ConfigurationError
from windlass.store.budgets import bucket_key
from windlass.store.fields import MAX_KEY
from windlass.store.records import Need, NewJob
from windlass.tasks.costs import Cost, as_costs, costed
from windlass.tasks.payload import Signature

if TYPE_CHECKING:
    from windlass.handles.budget import Budget

KEYS: Final = ("fair_key", "ordering_key", "concurrency_key")


class FlowOptions(TypedDict, total=False):
    """The options of `@app.task(...)` about its flow."""

    budgets: Iterable[str | Budget | Cost] | Mapping[str, int]
    """The budgets that each run draws a token from; as a mapping, so many tokens; a `Cost`, as many as its
    job says [F1]."""
    concurrency: int
    """How many of its jobs run at a time, over the whole cluster [F3]."""
    concurrency_key: str
    """The argument by whose value its jobs are limited."""
    key_concurrency: int
    """How many of its jobs run at a time for each such value; 1 without it."""
    ordering_key: str
    """The argument by whose value its jobs run one at a time and in order [F6]."""
    fair_key: str
    """The argument by whose value its jobs take turns [C3]."""


class Limits:
    """The flow of one task."""

    def __init__(self, task: str, signature: Signature, options: Mapping[str, Any]) -> None:
        self._task = task
        self._signature = signature
        drawn = options.get("budgets", ())
        drawn = drawn if isinstance(drawn, Mapping) else list(_listed(drawn))
        self.budgets: Final = _budgets(task, drawn)
        self._costs: Final = as_costs([] if isinstance(drawn, Mapping) else drawn)
        for cost in self._costs.values():
            cost.check(task, signature)
        self.concurrency: Final = _limit(task, "concurrency", options.get("concurrency"))
        self.key_concurrency: Final = _limit(task, "key_concurrency", options.get("key_concurrency"))
        self._keys = {name: self._need(name, 1, options[name]) for name in KEYS if name in options}

    def needs(self, keys: Mapping[str, str | None]) -> list[Need]:
        """Return the tokens that a run takes; `keys` says of budgets by which argument they are divided, if
        they are."""
        return [
            msgspec.structs.replace(
                self._need(f"budget {budget}", n, keys.get(budget)),
                budget=budget,
                costed=budget in self._costs,
            )
            for budget, n in self.budgets.items()
        ]

    @property
    def carried(self) -> dict[str, int]:
        """The options that each of its jobs carries."""
        limits = {"task_limit": self.concurrency, "key_limit": self.key_concurrency}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def filled(self, job: NewJob) -> NewJob:
        """The job with what its arguments say: the keys that it has not of its own, and what it costs. Raises
        InvalidOption."""
        if self._costs:
            job = costed(self._task, job, self._costs, self._signature)
        found: dict[str, str] = {}
        for name, need in self._keys.items():
            if getattr(job.options, name) is None:
                value = bucket_key(job.payload, need)
                found[name] = f"{self._task}:{value}"[:MAX_KEY]
        if not found:
            return job
        return msgspec.structs.replace(job, options=msgspec.structs.replace(job.options, **found))

    @property
    def reads_arguments(self) -> bool:
        """Return whether its arguments make keys or costs."""
        return bool(self._keys or self._costs)

    def _need(self, what: str, n: int, argument: str | None) -> Need:
        if argument is None:
            return Need(what, n)
        names = self._signature.names
        if argument not in names and not self._signature.takes_any:
            raise ConfigurationError(
                f"task {self._task}: {what} goes by the argument {argument!r}, which it does not have; it "
                f"has {', '.join(names) or 'none'}"
            )
        place = names.index(argument) if argument in names else None
        return Need(what, n, argument, place)


def _budgets(task: str, given: Any) -> dict[str, int]:
    pairs = given.items() if isinstance(given, Mapping) else ((each, 1) for each in given)
    budgets: dict[str, int] = {}
    for each, n in pairs:
        if isinstance(each, Cost) and n == 1:
            budgets[each.budget] = each.default
            continue
        name = each if isinstance(each, str) else getattr(each, "name", None)
        if not isinstance(name, str) or type(n) is not int or n < 1:
            raise ConfigurationError(
                f"task {task}: budgets={given!r}; write budgets=['github'], or {{'github': 2}} for two tokens"
            )
        budgets[check_name("budget", name)] = n
    return budgets


def _listed(given: Any) -> Iterable[Any]:
    return [given] if isinstance(given, str) or not isinstance(given, Iterable) else given


def _limit(task: str, option: str, value: Any) -> int | None:
    if value is not None and (type(value) is not int or value < 1):
        raise ConfigurationError(f"task {task}: {option}={value!r} must be a whole number from 1")
    return value
