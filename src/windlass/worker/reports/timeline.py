"""How a run ended, in the words of a timeline [M2]: the same that the log uses."""

from __future__ import annotations

from typing import Final, cast

from windlass.core.states import Kind
from windlass.endings import FOR_EVER
from windlass.presentation.text import one_line, span
from windlass.store.records import Event, EventKind, Outcome

LONGEST_ERROR: Final = 300
_LAST: Final = "{attempt} failed, no attempt is left: {error}"
_WAITS: Final = "{attempt} waits for signal {signals}{at_most}"
_SLEEPS: Final = "{attempt} sleeps for {delay}"
_FORMS: Final[dict[EventKind, str]] = {
    "retry": "{attempt} failed, next try in {delay}: {error}",
    "dead": "{attempt}: {error}",
    "snooze": "{attempt} is put off for {delay}",
    "throttled": "{attempt} was throttled, next try in {delay}",
    "unknown": "this worker does not know the task, next look in {delay}",
    "refused": "{attempt} ended too late ({kind}): the job belonged to another worker",
}


def ending(outcome: Outcome) -> EventKind:
    """How the run ended, by the name that it is counted under. A retry of the last attempt is a death: the
    store makes it one."""
    kind, job = outcome.kind, outcome.job
    if kind is Kind.RETRY and job.attempt >= job.options.max_attempts:
        return "dead"
    return cast(EventKind, kind.value)


def event_of(outcome: Outcome, how: EventKind, at: float, worker: str) -> Event:
    """The event of one run."""
    job = outcome.job
    return Event(
        at=at,
        kind=how,
        text=_words(outcome, how),
        job=job.id,
        queue=job.queue,
        task=job.task,
        worker=worker,
        attempt=job.attempt,
        ms=outcome.run_ms,
    )


def _words(outcome: Outcome, how: EventKind) -> str:
    job = outcome.job
    form = _LAST if how == "dead" and outcome.kind is Kind.RETRY else _FORMS.get(how, "{attempt}")
    if how == "snooze" and outcome.signals is not None:
        form = _WAITS if outcome.signals else _SLEEPS
    return form.format(
        attempt=f"attempt {job.attempt} of {job.options.max_attempts}",
        delay=span(outcome.delay),
        error=_error(outcome),
        kind=outcome.kind.value,
        signals=", ".join(outcome.signals or ()),
        at_most="" if outcome.delay >= FOR_EVER else f", at most {span(outcome.delay)}",
    )


def _error(outcome: Outcome) -> str:
    error = outcome.error
    return "" if error is None else one_line(f"{error.type}: {error.message}".rstrip(": "), LONGEST_ERROR)
