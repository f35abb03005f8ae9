"""Signals, and jobs that wait for them [W2]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.model.oracle.base import atomic
from tests.model.oracle.claims import Claims
from tests.model.oracle.job import Waiting
from windlass.core.states import State
from windlass.store import signal_rules
from windlass.store.records import SIGNAL, TIMEOUT, Awaited, ClaimedJob, Once, Step, Wait, WaitRecord


class Signals(Claims):
    """Signals are taken once, and the first one that a job waits for ends its oldest wait and wakes it."""

    _number = 0

    @atomic
    async def signal(
        self,
        job: int,
        name: str,
        value: str,
        *,
        once: Once | None = None,
        connection: Any = None,
        fits: Callable[[str], None] | None = None,
    ) -> str:
        signal_rules.check(name, value)
        now, known = self._clock(), self._tables.jobs.get(job)
        sent = once is not None and self._tables.sent_once.get(once.token, 0.0) > now
        if once is not None and once.lasts is None and sent:
            return "repeated"
        signal_rules.check_state(job, None if known is None else known.shown.value)
        assert known is not None
        signal_rules.check_kept(job, len(known.signals))
        if sent:
            raise signal_rules.used()
        waits = [each for each in known.waits.values() if each.suspended and each.signal == name]
        oldest = min(waits, key=lambda wait: wait.number, default=None)
        if oldest is not None and oldest.shape is not None and fits is not None:
            fits(oldest.shape)
        if once is not None:
            lasts = self._settings.idempotency_retention if once.lasts is None else once.lasts
            self._tables.sent_once[once.token] = now + lasts
        if (
            known.state is not State.SCHEDULED
            or oldest is None
            or any(sent == name for sent, _ in known.signals)
        ):
            known.signals.append((name, value))
            return "kept"
        del known.waits[oldest.name]
        known.steps[oldest.name] = Step(
            name=oldest.name, result=value, code=SIGNAL, attempt=known.attempt, at=now
        )
        self._tables.offer(known, now, turn=True)
        return "delivered"

    @atomic
    async def wait_for_signal(self, worker: int, job: ClaimedJob, wait: Wait) -> Awaited:
        known = self._own(self._tables.alive(worker), job)
        now = self._clock()
        if wait.name in known.steps:
            return Awaited(known.steps[wait.name])
        for place, (name, value) in enumerate(known.signals):
            if name == wait.signal:
                del known.signals[place]
                known.waits.pop(wait.name, None)
                done = Step(name=wait.name, result=value, code=SIGNAL, attempt=wait.attempt, at=now)
                return Awaited(known.steps.setdefault(wait.name, done))
        asked = known.waits.get(wait.name)
        if asked is None:
            self._number += 1
            until = None if wait.timeout is None else now + wait.timeout
            asked = Waiting(wait.name, wait.signal, self._number, now, until, wait.shape, job.claim)
            known.waits[wait.name] = asked
        asked.claim, asked.suspended = job.claim, False
        if asked.until is not None and asked.until <= now:
            del known.waits[wait.name]
            done = Step(name=wait.name, code=TIMEOUT, attempt=wait.attempt, at=now)
            return Awaited(known.steps.setdefault(wait.name, done))
        return Awaited(left=None if asked.until is None else asked.until - now)

    @atomic
    async def waits(
        self,
        limit: int = 100,
        *,
        before: int | None = None,
        job: int | None = None,
        signal: str | None = None,
    ) -> list[WaitRecord]:
        found = [
            WaitRecord(
                job=each.id, task=each.task, queue=each.queue, signal=wait.signal, since=wait.at,
                until=wait.until, shape=wait.shape, name=wait.name, number=wait.number,
            )
            for each in self._tables.jobs.values()
            for wait in each.waits.values()
            if each.state is State.SCHEDULED and wait.suspended
            if (job is None or each.id == job) and (signal is None or wait.signal == signal)
            if before is None or wait.number < before
        ]  # fmt: skip
        return sorted(found, key=lambda wait: -wait.number)[:limit]
