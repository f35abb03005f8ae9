"""What a run says: the figure of each peer, and what Windlass was to reach."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from bench.peers.subjects import KINDS
from bench.servers import POSTGRESQL

OURS: Final = "windlass"
BEFORE: Final = "windlass_before"


@dataclass(frozen=True)
class Figure:
    """Something that was measured: where it stands in the results, what it means, which way is better."""

    scenario: str
    key: str
    title: str
    unit: str
    more_is_better: bool = True


FIGURES: Final = (
    Figure("single", "single", "Single enqueue, one client", "jobs/s"),
    Figure("single", "single_by_16", "Single enqueue, 16 clients", "jobs/s"),
    Figure("bulk", "bulk", "Bulk enqueue", "jobs/s"),
    Figure("drain_one", "rate", "Drain, one process", "jobs/s"),
    Figure("drain_two", "rate", "Drain, two processes", "jobs/s"),
    *(Figure(kind, "rate", f"Drain, {what}", "jobs/s") for kind, what in KINDS.items()),
    Figure("durable_steps", "rate", "Workflows of 3 steps, one process", "workflows/s"),
    Figure("durable_long_steps", "steps_rate", "Steps, in workflows of 100, one process", "steps/s"),
    Figure("durable_long_steps", "bytes", "Database of a step", "bytes/step", more_is_better=False),
    Figure("durable_long_steps", "wal_bytes", "WAL of a step", "bytes/step", more_is_better=False),
    Figure("durable_long_steps", "cpu_us", "CPU of a step, all processes", "µs/step", more_is_better=False),
    Figure("durable_signals", "p50_ms", "Signal to the waiting workflow, median", "ms", more_is_better=False),
    Figure(
        "durable_signals",
        "p99_ms",
        "Signal to the waiting workflow, 99th percentile",
        "ms",
        more_is_better=False,
    ),
    Figure("pick_up", "p50_ms", "Pick-up at 200/s, median", "ms", more_is_better=False),
    Figure("pick_up", "p99_ms", "Pick-up at 200/s, 99th percentile", "ms", more_is_better=False),
    Figure("sustained", "rate", "Sustained", "jobs/s"),
    Figure("pinned", "last_third", "Sustained with a pinned snapshot, last third", "jobs/s"),
    Figure("pinned", "dead_tuples", "Dead tuples after it", "rows", more_is_better=False),
    Figure("bulk", "wal_bytes", "WAL of a bulk enqueue", "bytes/job", more_is_better=False),
    Figure("drain_one", "wal_bytes", "WAL of running a job", "bytes/job", more_is_better=False),
    Figure("bulk", "cpu_us", "CPU of a bulk enqueue, client and server", "µs/job", more_is_better=False),
    Figure("drain_one", "cpu_us", "CPU of running a job, worker and server", "µs/job", more_is_better=False),
    Figure("sustained", "cpu_us", "CPU of a job's whole life, all processes", "µs/job", more_is_better=False),
    Figure("idle", "worker_percent", "An idle worker", "% of a core", more_is_better=False),
    Figure("idle", "server_percent", "PostgreSQL beside an idle worker", "% of a core", more_is_better=False),
    Figure("idle", "transactions", "Transactions of an idle worker", "/s", more_is_better=False),
    Figure("idle_16", "worker_percent", "16 idle processes", "% of a core", more_is_better=False),
    Figure("idle_16", "transactions", "Transactions of 16 idle processes", "/s", more_is_better=False),
    Figure("idle_16", "connections", "Connections of 16 idle processes", "", more_is_better=False),
    Figure(
        "killed_child", "all_back_s", "Killed child: all its jobs run again after", "s", more_is_better=False
    ),
    Figure(
        "killed_host", "all_back_s", "Killed host: all its jobs run again after", "s", more_is_better=False
    ),
    Figure(
        "restarted", "working_again_s", "PostgreSQL restarted: working again after", "s", more_is_better=False
    ),
)


@dataclass(frozen=True)
class Aim:
    """What Windlass was to reach, and what it did."""

    what: str
    value: str
    aim: str
    met: bool | None
    """None: not measured in this run."""


def value(found: dict[str, Any], scenario: str, key: str, peer: str) -> float | None:
    """The median over the rounds, or None."""
    rounds = found["scenarios"].get(scenario, {}).get(peer, [])
    values = [each[key] for each in rounds if each.get(key) is not None]
    return statistics.median(values) if values else None


def of_peers(found: dict[str, Any], figure: Figure, *, store: str | None = None) -> dict[str, float]:
    """The figure of every library but Windlass, of this store or of all."""
    peers = {
        name: value(found, figure.scenario, figure.key, name)
        for name, peer in found["peers"].items()
        if is_rival(name, peer, store)
    }
    return {name: each for name, each in peers.items() if each is not None}


def is_rival(name: str, peer: dict[str, Any], store: str | None) -> bool:
    """Return whether this is a library but Windlass, on this store or on any."""
    return not name.startswith(OURS) and peer["library"] and store in (None, peer["store"])


def best(found: dict[str, Any], figure: Figure, store: str | None = POSTGRESQL) -> tuple[str, float] | None:
    """The peer that does best, and its figure."""
    peers = of_peers(found, figure, store=store)
    if not peers:
        return None
    pick = max if figure.more_is_better else min
    name = pick(peers, key=peers.__getitem__)
    return name, peers[name]


def figure(scenario: str, key: str) -> Figure:
    """The figure of this name."""
    return next(each for each in FIGURES if (each.scenario, each.key) == (scenario, key))


def aims(found: dict[str, Any]) -> Iterator[Aim]:
    """The aims of this benchmark, each with what was measured."""
    for scenario, key, least in (
        ("drain_one", "rate", 5.0),
        ("pinned", "last_third", 5.0),
        ("bulk", "bulk", 2.0),
        ("durable_steps", "rate", 3.0),
        ("durable_long_steps", "steps_rate", 3.0),
        ("durable_long_steps", "bytes", 3.0),
        ("durable_signals", "p50_ms", 3.0),
    ):
        each = figure(scenario, key)
        ours, other = value(found, scenario, key, OURS), best(found, each)
        ratio = ours / other[1] if ours is not None and other is not None else None
        if ratio and not each.more_is_better:
            ratio = 1 / ratio
        name = f" ({found['peers'][other[0]]['title']})" if other else ""
        yield Aim(
            f"{each.title} ÷ the best library on PostgreSQL{name}",
            "not measured" if ratio is None else f"{ratio:.1f} ×",
            f"≥ {least:g} ×",
            None if ratio is None else ratio >= least,
        )
    for scenario, key in (
        ("pick_up", "p50_ms"),
        ("pick_up", "p99_ms"),
        ("sustained", "cpu_us"),
        ("drain_one", "cpu_us"),
    ):
        yield _no_worse(found, figure(scenario, key))
    yield _no_worse(found, figure("killed_child", "all_back_s"))
    yield _lost(found)
    yield from _flat(found)


def _no_worse(found: dict[str, Any], each: Figure) -> Aim:
    aim = "no worse than the best library on PostgreSQL"
    ours, other = value(found, each.scenario, each.key, OURS), best(found, each)
    theirs = f"{found['peers'][other[0]]['title']} {shown(other[1])}" if other else "no library in time"
    if ours is None and tried(found, each, OURS):
        return Aim(each.title, f"none in time; {theirs}", aim, met=False)
    rivals = [name for name, peer in found["peers"].items() if is_rival(name, peer, POSTGRESQL)]
    if ours is None or not any(tried(found, each, name) for name in rivals):
        return Aim(each.title, "not measured", aim, None)
    return Aim(each.title, f"{shown(ours)} {each.unit}; {theirs}", aim, other is None or ours <= other[1])


def tried(found: dict[str, Any], each: Figure, peer: str) -> bool:
    """Return whether this was measured of a peer, be it that nothing came within the time."""
    rounds = found["scenarios"].get(each.scenario, {}).get(peer, [])
    return any("failed" in taken or each.key in taken for taken in rounds)


def _lost(found: dict[str, Any]) -> Aim:
    """Count in the scenarios that were measured, and name those that were not."""
    keys = (
        ("killed_child", "not_ended", "killed child"),
        ("killed_host", "not_ended", "killed host"),
        ("restarted", "lost", "PostgreSQL restarted"),
    )
    counts = {title: value(found, scenario, key, OURS) for scenario, key, title in keys}
    known = {title: int(count) for title, count in counts.items() if count is not None}
    missing = [title for title in counts if title not in known]
    message = f"{sum(known.values())} in {len(known)} trials" if known else ""
    message += f"{'; ' * bool(known)}{', '.join(missing)}: not measured" if missing else ""
    return Aim(
        f"Jobs lost, or not back within the wait: {', '.join(known or counts)}",
        message,
        "0",
        sum(known.values()) == 0 if known else None,
    )


def _flat(found: dict[str, Any]) -> Iterator[Aim]:
    claims = claim_times(found)
    if len(claims) > 1:
        least, most = min(claims), max(claims)
        ratio = max(claims.values()) / claims[least]
        yield Aim(
            f"Claim time, worst from {least:,} to {most:,} waiting jobs",
            f"{ratio:.2f} ×",
            "≤ 1.3 ×",
            ratio <= 1.3,
        )
    threads, ours = (value(found, "drain_one", "rate", name) for name in (f"{OURS}_threads", OURS))
    if threads is not None and ours is not None:
        ratio = threads / ours
        yield Aim("Drain by plain functions ÷ by coroutines", f"{ratio:.2f} ×", "≥ 0.7 ×", ratio >= 0.7)
    yield from _limited(found)
    crowd = dict(series(found, "crowd", "rate", OURS))
    if 64 in crowd:
        ratio = crowd[64] / max(crowd.values())
        yield Aim("Throughput of 64 processes ÷ the best crowd", f"{ratio:.2f} ×", "≥ 0.7 ×", ratio >= 0.7)


def _limited(found: dict[str, Any]) -> Iterator[Aim]:
    """What something keeps back, or could, beside plain jobs; a chain can only be as fast as a job runs."""
    for suffix, title in (("", ""), ("_sqlite", ", on SQLite")):
        plain = value(found, "drain_one", "rate", OURS + suffix)
        for kind, what in KINDS.items():
            rate = value(found, kind, "rate", OURS + suffix)
            if rate is None:
                continue
            if kind == "chain":
                yield Aim(f"Drain, {what}{title}", f"{rate:,.0f} jobs/s", "≥ 1,500 jobs/s", rate >= 1500)
            elif plain is not None:
                ratio = rate / plain
                yield Aim(f"Drain, {what} ÷ plain{title}", f"{ratio:.2f} ×", "≥ 0.5 ×", ratio >= 0.5)


def changes(found: dict[str, Any]) -> Iterator[tuple[Figure, float, float]]:
    """Every figure of Windlass as it was at an earlier commit, and now."""
    for each in FIGURES:
        was, now = (value(found, each.scenario, each.key, name) for name in (BEFORE, OURS))
        if was is not None and now is not None:
            yield each, was, now


def claim_times(found: dict[str, Any]) -> dict[int, float]:
    """Milliseconds of a claim of Windlass, by the number of jobs that wait."""
    rounds = found["scenarios"].get("claims", {}).get(OURS, [])
    return {int(size): took for each in rounds if "failed" not in each for size, took in each.items()}


def series(found: dict[str, Any], family: str, key: str, peer: str) -> list[tuple[int, float]]:
    """A figure over the sizes of a family of scenarios, such as backlog_1000, backlog_10000."""
    sizes = sorted(int(name.split("_")[1]) for name in found["scenarios"] if name.startswith(f"{family}_"))
    values = [(size, value(found, f"{family}_{size}", key, peer)) for size in sizes]
    return [(size, each) for size, each in values if each is not None]


def shown(number: float) -> str:
    """A number as a person reads it."""
    if number >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}"
