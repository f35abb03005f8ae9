"""Where a finding leads: the page on which something can be done about it. The name of a finding says what it
is about (see `presentation.findings`); what it advises on the command line stands below."""

from __future__ import annotations

from typing import Final, NamedTuple

from windlass.web.pages.rendering import link_name


class Place(NamedTuple):
    """A page and the text of a link to it."""

    path: str
    title: str


_PLACES: Final = {
    "dead jobs": Place("/dead", "See why they died"),
    "rotation": Place("/operations", "See the store"),
    "snapshots": Place("/operations", "See the store"),
    "queues": Place("/queues", "See the queues"),
}
_KINDS: Final = {
    "schedule": Place("/schedules", "See the schedules"),
    "budget": Place("/budgets", "See the budgets"),
    "gate": Place("/queues", "See which jobs wait"),
    "worker": Place("/workers", "See the workers"),
}


def place_of(name: str) -> Place | None:
    """The page about the finding of this name."""
    kind, _, rest = name.partition(" ")
    if kind == "queue" and rest:
        return Place(f"/queues/{link_name(rest)}", f"Go to queue {rest}")
    return _PLACES.get(name) or (_KINDS.get(kind) if rest else None)
