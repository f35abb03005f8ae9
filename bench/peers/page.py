"""The page of a run, as Markdown beside its plots: conditions, aims, where Windlass loses, every figure."""

from __future__ import annotations

from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any, Final

from bench.peers import left_out
from bench.peers.findings import (
    BEFORE,
    FIGURES,
    Figure,
    aims,
    changes,
    claim_times,
    series,
    shown,
    value,
)
from bench.peers.losses import losses
from bench.peers.plan import FULL, SMOKE
from bench.peers.plots import draw

HEADS: Final = {"lost": "not run in time"}
"""Heads of columns that do not speak for themselves."""


def write_page(folder: Path, found: dict[str, Any]) -> None:
    """Draw the plots and write README.md into the folder of the run."""
    (folder / "README.md").write_text(text(found, {name for name, _ in draw(folder, found)}), "utf-8")


def text(found: dict[str, Any], pictures: Set[str]) -> str:
    """Return the page of a run whose folder has these pictures."""
    return "\n".join(_lines(found, pictures)) + "\n"


def _lines(found: dict[str, Any], pictures: Set[str]) -> Iterator[str]:
    plan, machine = found["plan"], found["machine"]
    minutes = found.get("seconds", 0) / 60
    yield f"# Windlass and its peers, {found['measured_at'][:10]} ({plan['name']} run)"
    yield ""
    yield (
        f"One run of {minutes:.0f} minutes on {machine['cores']} cores ({machine['processor']}), "
        f"{machine['os']}, Python {machine['python']}, {_postgresql(found)}"
        f"commit {found['commit']}. Server, producer and workers share the machine. "
        "Every peer is used through its public API with its own recommended fast "
        "settings, in an environment of its own; peers take turns within a round; a figure is the median of "
        "its rounds. What ran is read from a ledger that handlers write. Shared machines are noisy: trust "
        "ratios more than rates, and differences under a third not at all."
    )
    yield ""
    if plan["name"] == SMOKE.name:
        yield "**This run measures nothing**: its sizes are tiny. It shows that every peer works."
        yield ""
    elif plan["name"] != FULL.name:
        yield (
            f"**This is a smaller run than the full one** (the {plan['name']} plan): shorter measurements, "
            f"{plan['rounds']} of {FULL.rounds} rounds, and less of it. [What was left "
            "out](#what-was-left-out) stands below."
        )
        yield ""
    if "overview.png" in pictures:
        yield "![at a glance](overview.png)"
        yield ""
    yield "## What was to be reached"
    yield ""
    yield "| | measured | aim | |"
    yield "|---|---|---|---|"
    for aim in aims(found):
        yield f"| {aim.what} | {aim.value} | {aim.aim} | {_mark(aim.met)} |"
    yield ""
    yield "## Where Windlass loses"
    yield ""
    yield "Each figure of this run that something does better in, be it no library or by less than the noise."
    yield ""
    lost = list(losses(found))
    yield from (f"- {each}" for each in lost) if lost else ["In none of the figures of this run."]
    yield ""
    yield from _left_out(found)
    yield from _changes(found)
    yield "## Every figure"
    yield ""
    for each in FIGURES:
        yield from _table(found, each)
        name = f"{each.scenario}-{each.key}.png"
        if name in pictures:
            yield f"![{each.title}]({name})"
            yield ""
    for family, title in (("backlog", "As the backlog grows"), ("crowd", "Worker processes")):
        yield from _family(found, family, title)
        if f"{family}.png" in pictures:
            yield f"![{title}]({family}.png)"
            yield ""
    yield from _faults(found)
    yield from _conditions(found)


def _left_out(found: dict[str, Any]) -> Iterator[str]:
    yield "## What was left out"
    yield ""
    yield "Beside a full run with every peer:"
    yield ""
    yield from (f"- {each}" for each in list(left_out.lines(found)) or ["nothing"])
    yield ""


def _changes(found: dict[str, Any]) -> Iterator[str]:
    rows = [
        f"| {each.title} | {each.unit} | {shown(was)} | {shown(now)} | {_ratio(now, was)} |"
        for each, was, now in changes(found)
    ]
    if rows:
        yield "## Before and after"
        yield ""
        yield f"{found['peers'][BEFORE]['title']}, and what is measured here, in the same rounds."
        yield ""
        yield "| | | before | now | now ÷ before |"
        yield "|---|---|---:|---:|---:|"
        yield from rows
        yield ""


def _ratio(now: float, was: float) -> str:
    return f"{now / was:.2f}" if was else "–"


def _postgresql(found: dict[str, Any]) -> str:
    """The server in a few words; how it was set stands among the conditions."""
    about = found["servers"].get("PostgreSQL", {})
    return (
        f"PostgreSQL {about['version']} ({about['server']}, jit {about['jit']}), " if "jit" in about else ""
    )


def _mark(met: bool | None) -> str:
    return {True: "met", False: "**missed**", None: "–"}[met]


def _table(found: dict[str, Any], each: Figure) -> Iterator[str]:
    rows = []
    for name, peer in found["peers"].items():
        rounds = found["scenarios"].get(each.scenario, {}).get(name, [])
        values = [taken[each.key] for taken in rounds if taken.get(each.key) is not None]
        median = value(found, each.scenario, each.key, name)
        if median is not None:
            spread = f"{shown(min(values))} – {shown(max(values))}" if len(values) > 1 else ""
            rows.append((median, f"| {peer['title']} | {peer['store']} | {shown(median)} | {spread} |"))
        elif rounds and (
            "failed" in rounds[-1] or each.key in rounds[-1]
        ):  # else its store has no such figure
            message = "did not within the time" if "failed" not in rounds[-1] else "failed"
            rows.append(
                (
                    float("-inf") if each.more_is_better else float("inf"),
                    f"| {peer['title']} | {peer['store']} | {message} | |",
                )
            )
    if rows:
        yield f"### {each.title}"
        yield ""
        yield f"| | store | {each.unit} | rounds |"
        yield "|---|---|---:|---|"
        yield from (row for _, row in sorted(rows, key=lambda row: row[0], reverse=each.more_is_better))
        yield ""


def _family(found: dict[str, Any], family: str, title: str) -> Iterator[str]:
    rows = {name: dict(series(found, family, "rate", name)) for name in found["peers"]}
    sizes = sorted({size for row in rows.values() for size in row})
    if not sizes:
        return
    yield f"### {title}: jobs a second"
    yield ""
    yield "| | " + " | ".join(f"{size:,}" for size in sizes) + " |"
    yield "|---|" + "---:|" * len(sizes)
    for name, row in rows.items():
        if row:
            cells = " | ".join(shown(row[size]) if size in row else "" for size in sizes)
            yield f"| {found['peers'][name]['title']} | {cells} |"
    claims = claim_times(found)
    if claims and family == "backlog":
        message = " · ".join(f"{size:,}: {number:.2f} ms" for size, number in claims.items())
        yield ""
        yield f"Median time of a claim of ten jobs (Windlass), by jobs waiting: {message}."
    yield ""


def _faults(found: dict[str, Any]) -> Iterator[str]:
    for scenario, title, keys in (
        (
            "killed_child",
            "A worker process killed",
            ("interrupted", "came_back", "all_back_s", "not_ended", "ended_twice"),
        ),
        (
            "killed_host",
            "A host killed",
            ("interrupted", "came_back", "all_back_s", "not_ended", "ended_twice"),
        ),
        (
            "restarted",
            "PostgreSQL restarted",
            ("acknowledged", "lost", "twice", "working_again_s", "worker_exits"),
        ),
    ):
        rounds = found["scenarios"].get(scenario, {})
        if not rounds:
            continue
        yield f"### {title}: the ledger"
        yield ""
        yield f"What had to come back was waited for: {found['plan']['recovery']:g} s."
        yield ""
        heads = (HEADS.get(key, key.removesuffix("_s").replace("_", " ")) for key in keys)
        yield f"| | {' | '.join(heads)} |"
        yield "|---|" + "---:|" * len(keys)
        for name, kept in rounds.items():
            for taken in kept:
                cells = (
                    ["failed", *[""] * (len(keys) - 1)]
                    if "failed" in taken
                    else [_cell(taken.get(key)) for key in keys]
                )
                yield f"| {found['peers'][name]['title']} | " + " | ".join(cells) + " |"
        yield ""


def _cell(number: Any) -> str:
    if number is None:
        return "not in time"
    return shown(number) if isinstance(number, float) else f"{number:,}"


def _conditions(found: dict[str, Any]) -> Iterator[str]:
    yield "## Conditions"
    yield ""
    for server, settings in found["servers"].items():
        yield f"- **{server}**: " + ", ".join(f"{name} {each}" for name, each in settings.items())
    yield ""
    yield "| | versions | enqueues many by | settings |"
    yield "|---|---|---|---|"
    for peer in found["peers"].values():
        versions = ", ".join(f"{name} {version}" for name, version in peer["versions"].items())
        settings = "; ".join(f"*{name}*: {each}" for name, each in peer["settings"].items())
        bulk = f"{peer['bulk']}, {peer['batch']:,} at a time" if peer["bulk"] else "has no such call"
        yield f"| {peer['title']} | {versions} | {bulk} | {settings} |"
    yield ""
    failed = [*failures(found), *found["notes"]]
    if failed:
        yield "## What did not work"
        yield ""
        yield from (f"- {each}" for each in failed)
        yield ""


def failures(found: dict[str, Any]) -> Iterator[str]:
    """Name each measurement that failed, and its error."""
    for scenario, peers in found["scenarios"].items():
        for name, kept in peers.items():
            for taken in kept:
                if "failed" in taken:
                    error = taken["failed"].splitlines()[0][:200]
                    yield f"{scenario} of {found['peers'][name]['title']}: {error}"
