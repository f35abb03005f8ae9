"""The verbs that do a coordinator's duty once, by hand, and say what it did [K3].

Running workers do all of this by themselves; each duty is idempotent, so doing it besides them is harmless.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click
import msgspec

from windlass.cli.options import with_json
from windlass.cli.output import print_answer
from windlass.cli.target import Target
from windlass.cluster import duties
from windlass.cluster.schedules import fire_due
from windlass.core.counts import plural
from windlass.core.harmless import harmless
from windlass.core.rates import rate_text
from windlass.core.retry import DeathPolicy
from windlass.presentation import audit
from windlass.presentation.text import span
from windlass.store.protocol import Store

T = TypeVar("T")
_TERM = 30.0


@click.group()
def maintain() -> None:
    """Run one of the coordinator's duties by hand; running workers already do all of them."""


def _once(context: click.Context, parameter: click.Parameter, value: bool) -> bool:
    if not value and not context.resilient_parsing:
        raise click.UsageError("add --once: running workers already do this again and again")
    return value


def _duty(function: Callable[..., None]) -> click.Command:
    """A verb that does a duty. It needs --once: nobody shall take it for a process to leave running."""
    once = click.option(
        "--once", is_flag=True, expose_value=False, callback=_once, help="Do it once and exit; required."
    )
    return maintain.command()(once(with_json(function)))


@_duty
def promote(target: Target, as_json: bool) -> None:
    """Make scheduled jobs and retries that are due ready, and admit jobs with a fair key."""
    _count(target, "promote", duties.promote, as_json)


@_duty
def retention(target: Target, as_json: bool) -> None:
    """Delete what is past its retention: finished and dead jobs, idempotency keys, records of old workers."""
    rotation, expired = target.act(
        duties.retention, lambda done: [audit.duty("retention", ", ".join(map(_in_words, done)))]
    )
    _show({**msgspec.structs.asdict(rotation), **msgspec.structs.asdict(expired)}, as_json)


@_duty
def rescue(target: Target, as_json: bool) -> None:
    """Take back the jobs of workers that died, after watching their heartbeats for one lease."""
    lease, policy = target.settings.lease, DeathPolicy(poison=target.settings.poison)
    click.echo(f"watching the workers' heartbeats for one lease, {lease:g} s", err=True)
    rescued = target.act(
        lambda store: duties.rescue(store, policy, lease),
        lambda done: [audit.duty("rescue", f"{plural(len(done), 'worker')} had died")],
    )
    shapes = [
        {"worker": str(worker.id), "label": worker.label, **msgspec.structs.asdict(jobs)}
        for worker, jobs in rescued
    ]
    lines = [f"{harmless(worker.label) or worker.id}: {_in_words(jobs)}" for worker, jobs in rescued]
    print_answer(as_json, {"rescued": shapes}, "\n".join(lines) or "no worker has died")


@_duty
def schedules(target: Target, as_json: bool) -> None:
    """Fire the schedules that are due; each time fires once, however many processes do this."""
    made = target.act(
        lambda store: fire_due(store, None),
        lambda made: [audit.duty("schedules", f"{plural(made, 'job')} made")],
    )
    _show({"jobs": made}, as_json)


@_duty
def rollup(target: Target, as_json: bool) -> None:
    """Aggregate what workers reported, for charts and counters, and delete what is past its retention."""
    _count(target, "rollup", duties.rollup, as_json)


@_duty
def governor(target: Target, as_json: bool) -> None:
    """Let the governors of all governed queues adjust their rates."""
    decided = _as_coordinator(
        target, duties.govern, lambda done: audit.duty("governor", f"{plural(len(done), 'queue')} decided on")
    )
    shapes = [{"queue": queue, **msgspec.structs.asdict(each)} for queue, each in decided.items()]
    lines = [f"{queue}: {rate_text(each.rate)}, {each.why}" for queue, each in decided.items()]
    none = "no queue has a governor; `windlass queue set NAME --governor on` gives it one"
    print_answer(as_json, {"governors": shapes}, "\n".join(lines) or none)


@_duty
def slots(target: Target, as_json: bool) -> None:
    """Share out every queue's slots over the workers that serve it."""
    assigned = _as_coordinator(
        target,
        duties.assign_slots,
        lambda done: audit.duty("slots", f"over {plural(len(done), 'worker')}"),
    )
    lines = [f"{worker}: {_counts(shares)}" for worker, shares in assigned.items()]
    shape = {str(worker): shares for worker, shares in assigned.items()}
    print_answer(as_json, {"slots": shape}, "\n".join(lines) or "no worker is alive")


def _as_coordinator(
    target: Target, duty: Callable[[Store, int], Awaitable[T]], entry: Callable[[T], audit.AuditEntry]
) -> T:
    """Do what only a coordinator may, in a term of one's own [K3]."""
    candidate = secrets.randbelow(2**62) + 1

    async def work(store: Store) -> T:
        term = await store.lead(candidate, _TERM)
        if term is None:
            raise click.ClickException(
                "another coordinator is active and does this itself; there is nothing to do by hand"
            )
        try:
            return await duty(store, term)
        finally:
            await store.resign(candidate)

    return target.act(work, lambda done: [entry(done)])


def _count(
    target: Target, name: str, duty: Callable[[Store], Awaitable[msgspec.Struct]], as_json: bool
) -> None:
    """Do a duty that counts what it did."""
    done = target.act(duty, lambda done: [audit.duty(name, _in_words(done))])
    _show(msgspec.structs.asdict(done), as_json)


def _show(counts: dict[str, Any], as_json: bool) -> None:
    print_answer(as_json, counts, _counts(counts))


def _in_words(done: msgspec.Struct) -> str:
    return _counts(msgspec.structs.asdict(done))


def _counts(counts: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {_value(value)}" for name, value in counts.items()) or "none"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return span(value)
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else harmless(str(value))
