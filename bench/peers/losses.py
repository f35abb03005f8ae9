"""Every figure in which something does better than Windlass: a library, a loop by hand, a raw insert."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from bench.peers.findings import FIGURES, OURS, Figure, shown, tried, value
from bench.servers import SQLITE

FAULTS: Final = tuple(
    Figure(scenario, key, f"{title}: {what}", "jobs", more_is_better=False)
    for scenario, title, keys in (
        ("killed_child", "Killed child", ("not_ended", "ended_twice")),
        ("killed_host", "Killed host", ("not_ended", "ended_twice")),
        ("restarted", "PostgreSQL restarted", ("lost", "twice")),
    )
    for key, what in zip(keys, ("lost or not back in time", "run twice"), strict=True)
)
FAMILIES: Final = {
    "backlog": "One process behind {:,} waiting jobs",
    "crowd": "{:,} worker processes",
}


def losses(found: dict[str, Any]) -> Iterator[str]:
    """Name each figure that something does better in, and all that do; on SQLite among themselves, too."""
    rivals = [name for name in found["peers"] if not name.startswith(OURS)]
    on_sqlite = [name for name in rivals if found["peers"][name]["store"] == SQLITE]
    for each in (*FIGURES, *FAULTS, *_families(found)):
        yield from _loss(found, each, OURS, rivals)
        yield from _loss(found, each, f"{OURS}_sqlite", on_sqlite)


def _families(found: dict[str, Any]) -> Iterator[Figure]:
    for scenario in found["scenarios"]:
        family, _, size = scenario.rpartition("_")
        if family in FAMILIES:
            yield Figure(scenario, "rate", FAMILIES[family].format(int(size)), "jobs/s")


def _loss(found: dict[str, Any], each: Figure, name: str, rivals: list[str]) -> Iterator[str]:
    ours = value(found, each.scenario, each.key, name)
    if ours is None and not tried(found, each, name):
        return  # it did not take part, or there is no such figure for its store
    theirs = {rival: value(found, each.scenario, each.key, rival) for rival in rivals}
    better = {rival: number for rival, number in theirs.items() if _better(each, number, ours)}
    if better:
        ordered = sorted(better.items(), key=lambda item: item[1] or 0, reverse=each.more_is_better)
        peers = found["peers"]
        listed = ", ".join(f"{peers[rival]['title']} {shown(number or 0)}" for rival, number in ordered)
        mine = "none in time" if ours is None else f"{shown(ours)} {each.unit}".rstrip()
        yield f"**{each.title}**: {peers[name]['title']} {mine}; better: {listed}."


def _better(each: Figure, theirs: float | None, ours: float | None) -> bool:
    if theirs is None or ours is None:
        return theirs is not None
    return theirs > ours if each.more_is_better else theirs < ours
