"""The verbs that do a coordinator's duty once, by hand, and say what it did [K3].

Running workers do all of this by themselves; each duty is idempotent, so doing it besides them is harmless.
"""

from __future__ import annotations

from collections.abc import Callable

import click

from windlass.cli.options import with_json
from windlass.cli.output import print_answer
from windlass.cli.target import Target
from windlass.cluster.maintain import Counts, Duty, once
from windlass.core.counts import plural
from windlass.core.flow.rates import rate_text
from windlass.core.harmless import harmless
from windlass.presentation import audit
from windlass.presentation.text import span


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
    _count(target, "promote", as_json)


@_duty
def retention(target: Target, as_json: bool) -> None:
    """Delete what is past its retention: finished and dead jobs, idempotency keys, records of old workers."""
    _count(target, "retention", as_json)


@_duty
def rescue(target: Target, as_json: bool) -> None:
    """Take back the jobs of workers that died, after watching their heartbeats for one lease."""
    click.echo(f"watching the workers' heartbeats for one lease, {target.settings.lease:g} s", err=True)
    done = _do(target, "rescue", lambda done: f"{plural(len(done['rescued']), 'worker')} had died")
    lines = []
    for each in done["rescued"]:
        jobs = {name: value for name, value in each.items() if name not in ("worker", "label")}
        lines.append(f"{harmless(each['label']) or each['worker']}: {_counts(jobs)}")
    print_answer(as_json, done, "\n".join(lines) or "no worker has died")


@_duty
def schedules(target: Target, as_json: bool) -> None:
    """Fire the schedules that are due; each time fires once, however many processes do this."""
    done = _do(target, "schedules", lambda done: f"{plural(done['jobs'], 'job')} made")
    print_answer(as_json, done, _counts(done))


@_duty
def rollup(target: Target, as_json: bool) -> None:
    """Aggregate what workers reported, for charts and counters, and delete what is past its retention."""
    _count(target, "rollup", as_json)


@_duty
def counts(target: Target, as_json: bool) -> None:
    """Count jobs that have ended, compare the counts with the logs, and correct them where they differ."""
    done = _do(target, "counts", lambda done: f"{plural(len(done['corrected']), 'count')} corrected")
    lines = [f"{plural(done['ended'], 'job has', 'jobs have')} ended; counts and logs agree"]
    if done["corrected"]:
        lines = [
            f"{each['queue']} {harmless(each['task'])} {each['kind']}: {each['counted']:,} were counted, "
            f"{each['found']:,} are in the logs; corrected"
            for each in done["corrected"]
        ]
    print_answer(as_json, done, "\n".join(lines))


@_duty
def governor(target: Target, as_json: bool) -> None:
    """Let the governors of all governed queues adjust their rates."""
    done = _do(target, "governor", lambda done: f"{plural(len(done['governors']), 'queue')} decided on")
    lines = [f"{each['queue']}: {rate_text(each['rate'])}, {each['why']}" for each in done["governors"]]
    none = "no queue has a governor; `windlass queue set NAME --governor on` gives it one"
    print_answer(as_json, done, "\n".join(lines) or none)


@_duty
def slots(target: Target, as_json: bool) -> None:
    """Share out every queue's slots over the workers that serve it."""
    done = _do(target, "slots", lambda done: f"over {plural(len(done['slots']), 'worker')}")
    lines = [f"{worker}: {_counts(shares)}" for worker, shares in done["slots"].items()]
    print_answer(as_json, done, "\n".join(lines) or "no worker is alive")


def _do(target: Target, duty: Duty, summary: Callable[[Counts], str]) -> Counts:
    """Do a duty; the timeline gets the summary of what it did."""
    return target.act(
        lambda store: once(store, duty, target.settings), lambda done: [audit.duty(duty, summary(done))]
    )


def _count(target: Target, duty: Duty, as_json: bool) -> None:
    """Do a duty that does nothing but count what it did."""
    done = _do(target, duty, _counts)
    print_answer(as_json, done, _counts(done))


def _counts(counts: Counts) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {_value(value)}" for name, value in counts.items()) or "none"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return span(value)
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else harmless(str(value))
