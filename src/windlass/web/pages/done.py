"""The notice of an action, shown once on the next page. The query holds a keyword and a count, never text: a
forged link cannot make a page show words of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from windlass.core.counts import plural

Tone = Literal["good", "warn"]
NOTICE: Final = ("did", "n")
"""The parameters of a query that hold it."""


class Notice(NamedTuple):
    """A line at the top of a page."""

    tone: Tone
    text: str


_COUNTED: Final = {
    "changed": ("good", "changed"),
    "cancelled": ("good", "cancelled, or asked to stop where running"),
    "retried": ("good", "enqueued again"),
    "deleted": ("good", "deleted, or asked to stop where running"),
    "redriven": ("good", "enqueued again, each from its last checkpoint"),
}
_PLAIN: Final = {
    "none": "Nothing changed: no job was in a state that allows it.",
    "picked": "Nothing was selected.",
    "signalled": "The signal is sent. The job goes on with it.",
    "replayed": "This job is a copy of the one you replayed.",
    "paused": "Paused. Running jobs finish.",
    "resumed": "Resumed.",
    "warmed": "The cool-down has ended.",
    "unchanged": "Nothing changed: it has these settings already.",
    "changed": "Changed. It takes effect everywhere within two seconds.",
    "fired": "The schedule fired and enqueued this job.",
    "skipped": "The schedule fired, but its job was not enqueued: its unique key is parked.",
    "closed": "Closed. The group ends with the last of its jobs.",
    "removed": "Removed.",
    "added": "Added. It fires from its next time on, and survives deploys.",
    "reverted": "It is as the code declares it again.",
    "drained": "Drained. It grants no tokens until the pause has passed.",
    "stopped": "Stopped. Jobs handled so far stay changed.",
}
_WARNS: Final = frozenset({"none", "picked", "skipped"})


def notice(query: Mapping[str, str]) -> Notice | None:
    """The notice that a query names, if it is one of ours."""
    did, count = query.get("did", ""), query.get("n", "")
    if did in _PLAIN:
        return Notice("warn" if did in _WARNS else "good", _PLAIN[did])
    if did in _COUNTED and count.isascii() and count.isdigit() and len(count) < 10:
        noun = "part" if did == "redriven" else "job"
        return Notice("good", f"{plural(int(count), noun)} {_COUNTED[did][1]}.")
    return None
