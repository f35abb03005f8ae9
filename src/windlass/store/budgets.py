"""The rules about budgets that every store shares: how its settings are changed, and which bucket a job draws
from [F1]."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from windlass.core.cron import BadSchedule, zone
from windlass.core.names import check_name
from windlass.store.changes import merged
from windlass.store.fields import MAX_KEY, NewBudget, fields_of
from windlass.store.records import Need, Options

MOST_TOKENS: Final = 1_000_000_000
"""The most that a job costs of a budget, and that a run says it used."""
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw] | list[msgspec.Raw]).decode
_text = msgspec.json.Decoder(str).decode


def checked(budget: NewBudget) -> NewBudget:
    """The budget, if it makes sense. Raises ValueError or InvalidName."""
    return changed(budget, {name: getattr(budget, name) for name in fields_of(NewBudget)})


def changed(old: NewBudget, changes: Mapping[str, Any]) -> NewBudget:
    """The budget with these settings changed. Raises ValueError where one is unknown or makes no sense."""
    check_name("budget", old.name)
    new = merged("budget", old.name, old, changes)
    if new.cap is not None and new.cap < new.burst and {"cap", "burst"} & changes.keys():
        raise ValueError(f"cap of budget {old.name!r} cannot be below its burst, {new.burst:,}")
    try:
        zone(new.cap_zone)
    except BadSchedule as error:
        raise ValueError(f"cap_zone of budget {old.name!r}: {error}") from None
    return new


def new(name: str, changes: Mapping[str, Any]) -> NewBudget:
    """A budget that is made by its first setting."""
    if "rate" not in changes:
        raise ValueError(f"there is no budget {name!r}; give it a rate to make it")
    rate = fields_of(NewBudget)["rate"].checked("budget", name, changes["rate"])
    return changed(NewBudget(name=name, rate=rate, burst=max(1, math.ceil(rate))), changes)


def tokens_of(need: Need, options: Options) -> int:
    """How many tokens a job takes of a budget."""
    return options.costs.get(need.budget, need.n) if need.costed else need.n


def bucket_key(payload: str, need: Need) -> str:
    """The key of the bucket that a job draws from: the value of an argument, "" where there is none.

    A text is its own key; other values are keyed by their JSON as it was sent. What is longer than a key may
    be is cut."""
    if need.argument is None:
        return ""
    content = _decode(payload)
    places: Any = content if isinstance(content, list) else ()
    found = None
    if isinstance(content, dict):
        found = content.get(need.argument)
        if found is None and "*" in content:
            places = msgspec.json.decode(content["*"], type=list[msgspec.Raw])
    if found is None and need.place is not None and need.place < len(places):
        found = places[need.place]
    raw = b"null" if found is None else bytes(found).strip()
    if raw == b"null":
        return ""
    return (_text(raw) if raw.startswith(b'"') else raw.decode())[:MAX_KEY]
