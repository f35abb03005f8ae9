"""Peers and scenarios of the full plan that a run did without, and why; a page names them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from bench.peers.plan import FULL, Plan
from bench.peers.scenarios.catalog import Scenario, scenarios
from bench.peers.subjects import SUBJECTS, Subject

UNSAID: Final = "not part of this run"


def reasons(
    plan: Plan, chosen: Sequence[Subject], took_part: Sequence[Subject], only: Sequence[str], restart: bool
) -> dict[str, dict[str, str]]:
    """Say, before a run begins, which peers and scenarios it will do without, by name."""
    names = {each.name for each in took_part}
    peers = {
        each.name: "no redis-server was found" if each in chosen else "not chosen"
        for each in SUBJECTS
        if each.name not in names
    }
    planned = {each.name: each for each in scenarios(plan)}
    left: dict[str, str] = {}
    for name in dict.fromkeys((*(each.name for each in scenarios(FULL)), *planned)):
        if name not in planned:
            left[name] = f"not in the {plan.name} plan"
        elif only and not name.startswith(tuple(only)):
            left[name] = "not chosen"
        elif planned[name].restarts and not restart:
            left[name] = "PostgreSQL was given by its URL and is not restarted"
    return {"peers": peers, "scenarios": left}


def lines(found: dict[str, Any]) -> Iterator[str]:
    """Name the peers and scenarios that were left out, and the peers that are missing in the others."""
    why = {"peers": {}, "scenarios": {}, **found.get("left_out", {})}
    absent = [each for each in SUBJECTS if each.name not in found["peers"]]
    peers = {each.title: why["peers"].get(each.name, UNSAID) for each in absent}
    unmeasured, partly = {}, []
    for each in scenarios(FULL):
        measured = {name for name, kept in found["scenarios"].get(each.name, {}).items() if kept}
        if not measured:
            unmeasured[f"`{each.name}`"] = why["scenarios"].get(each.name, UNSAID)
        elif missing := _missing(found, each, measured):
            partly.append(f"`{each.name}` without {', '.join(missing)}")
    yield from (f"peers, {line}" for line in _by_reason(peers))
    yield from (f"scenarios, {line}" for line in _by_reason(unmeasured))
    yield from partly


def _missing(found: dict[str, Any], scenario: Scenario, measured: set[str]) -> list[str]:
    """Return the titles of peers that took part in the run, have this scenario, and were not measured."""
    return [
        each.title
        for each in SUBJECTS
        if each.name in found["peers"] and each.name not in measured and scenario.takes(each)
    ]


def _by_reason(why: Mapping[str, str]) -> Iterator[str]:
    for reason in dict.fromkeys(why.values()):
        yield f"{reason}: {', '.join(name for name, each in why.items() if each == reason)}"
