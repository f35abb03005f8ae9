"""The verbs that do a coordinator's duty once, by hand, and say what it did [K3].

Running workers do all of this by themselves; each duty is idempotent, so doing it besides them is harmless.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click
import msgspec

from windlass.cli.options import json_option, on_store
from windlass.cli.output import print_json
from windlass.cli.target import Target
from windlass.core.counts import plural
from windlass.core.harmless import harmless
from windlass.core.rates import rate_text
from windlass.core.retry import DeathPolicy
from windlass.presentation import audit
from windlass.presentation.text import span
from windlass.store.protocol import Store
from windlass.store.records import Rescued, WorkerRecord

T = TypeVar("T")
_TERM = 30.0


@click.group()
def maintain() -> None:
    """Run one of the coordinator's duties by hand; running workers already do all of them."""


def _once(context: click.Context, parameter: click.Parameter, value: bool) -> bool:
    if not value and not context.resilient_parsing:
        raise click.UsageError("add --once: running workers already do this again and again")
    return value


_once_option = click.option(
    "--once", is_flag=True, expose_value=False, callback=_once, help="Do it once and exit; required."
)


@maintain.command()
@_once_option
@on_store
@json_option
def promote(target: Target, as_json: bool) -> None:
    """Make scheduled jobs and retries that are due ready, and admit jobs with a fair key."""
    from windlass.cluster import duties

    done = target.act(duties.promote, lambda done: [audit.duty("promote", _in_words(done))])
    _show(msgspec.structs.asdict(done), as_json)


@maintain.command()
@_once_option
@on_store
@json_option
def retention(target: Target, as_json: bool) -> None:
    """Delete what is past its retention: finished and dead jobs, idempotency keys, records of old workers."""
    from windlass.cluster import duties

    rotation, expired = target.act(
        duties.retention, lambda done: [audit.duty("retention", ", ".join(map(_in_words, done)))]
    )
    _show({**msgspec.structs.asdict(rotation), **msgspec.structs.asdict(expired)}, as_json)


@maintain.command()
@_once_option
@on_store
@json_option
def rescue(target: Target, as_json: bool) -> None:
    """Take back the jobs of workers that died, after watching their heartbeats for one lease."""
    from windlass.cluster import duties

    lease, policy = target.settings.lease, DeathPolicy(poison=target.settings.poison)
    click.echo(f"watching the workers' heartbeats for one lease, {lease:g} s", err=True)

    async def work(store: Store) -> list[tuple[WorkerRecord, Rescued]]:
        return await duties.rescue(store, policy, lease)

    rescued = target.act(work, lambda done: [audit.duty("rescue", f"{plural(len(done), 'worker')} had died")])
    if as_json:
        shape = [
            {"worker": str(worker.id), "label": worker.label, **msgspec.structs.asdict(jobs)}
            for worker, jobs in rescued
        ]
        print_json({"rescued": shape})
        return
    for worker, jobs in rescued:
        click.echo(f"{harmless(worker.label) or worker.id}: {_counts(msgspec.structs.asdict(jobs))}")
    if not rescued:
        click.echo("no worker has died")


@maintain.command()
@_once_option
@on_store
@json_option
def schedules(target: Target, as_json: bool) -> None:
    """Fire the schedules that are due; each time fires once, however many processes do this."""
    from windlass.cluster.schedules import fire_due

    made = target.act(
        lambda store: fire_due(store, None),
        lambda made: [audit.duty("schedules", f"{plural(made, 'job')} made")],
    )
    _show({"jobs": made}, as_json)


@maintain.command()
@_once_option
@on_store
@json_option
def rollup(target: Target, as_json: bool) -> None:
    """Aggregate what workers reported, for charts and counters, and delete what is past its retention."""
    from windlass.cluster import duties

    done = target.act(duties.rollup, lambda done: [audit.duty("rollup", _in_words(done))])
    _show(msgspec.structs.asdict(done), as_json)


@maintain.command()
@_once_option
@on_store
@json_option
def governor(target: Target, as_json: bool) -> None:
    """Let the governors of all governed queues adjust their rates."""
    from windlass.cluster import duties

    decided = _as_coordinator(
        target, duties.govern, lambda done: audit.duty("governor", f"{plural(len(done), 'queue')} decided on")
    )
    if as_json:
        shape = [{"queue": queue, **msgspec.structs.asdict(each)} for queue, each in decided.items()]
        print_json({"governors": shape})
        return
    for queue, each in decided.items():
        click.echo(f"{queue}: {rate_text(each.rate)}, {each.why}")
    if not decided:
        click.echo("no queue has a governor; `windlass queue set NAME --governor on` gives it one")


@maintain.command()
@_once_option
@on_store
@json_option
def slots(target: Target, as_json: bool) -> None:
    """Share out every queue's slots over the workers that serve it."""
    from windlass.cluster import duties

    assigned = _as_coordinator(
        target,
        duties.assign_slots,
        lambda done: audit.duty("slots", f"over {plural(len(done), 'worker')}"),
    )
    if as_json:
        print_json({"slots": {str(worker): shares for worker, shares in assigned.items()}})
        return
    for worker, shares in assigned.items():
        click.echo(f"{worker}: {_counts(shares)}")
    if not assigned:
        click.echo("no worker is alive")


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


def _show(counts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(counts)
    else:
        click.echo(_counts(counts))


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
