"""Which queue a task goes to when nobody named one: prefix rules such as `gh.*` → `gh`, else, where its code
is elsewhere, what live workers say, else `default` [E5]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from windlass.core.names import check_name
from windlass.errors import ConfigurationError, InvalidName

DEFAULT_QUEUE: Final = "default"


class Routes:
    """Rules from task names to queues.

    A rule is a whole task name, or a prefix followed by `*`. A whole name beats every prefix and a longer
    prefix beats a shorter one, so the order in which rules are written does not matter.
    """

    def __init__(self, rules: Mapping[str, str] | None = None) -> None:
        self._exact: dict[str, str] = {}
        prefixes: dict[str, str] = {}
        for pattern, queue in (rules or {}).items():
            stem = pattern.removesuffix("*")
            _check_rule(pattern, stem, queue)
            (prefixes if pattern.endswith("*") else self._exact)[stem] = queue
        self._prefixes = sorted(prefixes.items(), key=lambda rule: -len(rule[0]))

    def find(self, task: str) -> str | None:
        """The queue that a rule names for a task of this name, if one does."""
        if task in self._exact:
            return self._exact[task]
        return next((queue for stem, queue in self._prefixes if task.startswith(stem)), None)

    def queue(self, task: str) -> str:
        """The queue for a task of this name."""
        return self.find(task) or DEFAULT_QUEUE


class Published(NamedTuple):
    """A task as one live worker publishes it: the queue of its jobs, and whether it serves that queue
    itself."""

    queue: str
    serves: bool
    since: float
    """When that worker started."""


def choose_published(said: Iterable[Published]) -> str | None:
    """The queue for a task whose code is elsewhere. Workers of two versions may not agree: those that serve
    the queue they name come first, then the one that started last. Of those that started together, the name
    decides."""
    best = max(said, key=lambda each: (each.serves, each.since, each.queue), default=None)
    return None if best is None else best.queue


def _check_rule(pattern: str, stem: str, queue: str) -> None:
    try:
        if stem or pattern != "*":
            check_name("task", stem)
        check_name("queue", queue)
    except InvalidName as error:
        raise ConfigurationError(
            f"route {pattern!r} → {queue!r}: {error}; a route is a task name or a prefix with * at its end"
        ) from error
