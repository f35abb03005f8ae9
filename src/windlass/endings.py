"""Exceptions that a handler may raise to say how its attempt ends [O1]. Anything else it raises is a failed
attempt.

    raise Retry(after="10s")            failed; try again in ten seconds
    raise Snooze("5m")                  not now; the attempt is not charged
    raise Throttled(retry_after="30s")  the other side asked for less; not charged
    raise Dead("no such customer")      trying again is pointless
    raise SourceGone("file deleted")    nothing left to do; ends well
    raise Cancelled                     stopped half-way; ends as cancelled

`Retry` also names a task's policy: `@app.task(retry=Retry(5, base="5s", cap="30m"))`. One word for both,
since both answer the same question: when does this job run again? The policy may also say for which errors:
`Retry(5, on=(TimeoutError, "httpx.TransportError"))`, `Retry(5, never=(ValueError, KeyError))` [O9].
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from windlass.core.durations import Duration, seconds
from windlass.core.retry import Backoff
from windlass.core.retry_rules import ErrorKind, RetryRules, check_kinds, kind_name
from windlass.errors import ConfigurationError

MAX_ATTEMPTS: Final = 1000
MAX_DELAY: Final = 100 * 365 * 86400.0
FOR_EVER: Final = 0.99 * MAX_DELAY
"""A wait without a timeout is put off by MAX_DELAY: what is due after longer than this has no time."""
MAX_FACTOR: Final = 1000
DEFAULT_ATTEMPTS: Final = 5


class Ending(Exception):
    """Base of what a handler raises to end its run."""


def _span(where: str, value: Duration) -> float:
    """A parameter in seconds; for what is no duration, raises ConfigurationError that names the parameter."""
    try:
        return seconds(value)
    except ValueError as error:
        raise ConfigurationError(f"{where}={value!r}): {error}") from None


def _waits(given: Iterable[Duration] | None) -> tuple[float, ...]:
    """The waits of a policy in seconds, of which there is at least one where they are given at all."""
    if given is None:
        return ()
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigurationError(f"Retry(waits={given!r}) is not a list; write waits=['1m', '4m', '16m']")
    found = tuple(min(_span("Retry(waits", each), MAX_DELAY) for each in given)
    if not found:
        raise ConfigurationError("Retry(waits=[]) names no wait; name some, or leave waits= out")
    return found


def _kinds(option: str, given: ErrorKind | Iterable[ErrorKind] | None) -> tuple[ErrorKind, ...]:
    """The error classes of a policy. Raises ConfigurationError, also where there are none, and for endings,
    which say themselves what becomes of their job."""
    if given is None:
        return ()
    try:
        kinds = check_kinds(given)
    except ValueError as error:
        raise ConfigurationError(f"Retry({option}=…): {error}") from None
    if not kinds:
        raise ConfigurationError(f"Retry({option}=()) names no error; name some, or leave {option}= out")
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, Ending):
            raise ConfigurationError(
                f"Retry({option}=…): {kind.__name__} says itself how a run ends; leave it out"
            )
    return kinds


class Retry(Ending):
    """Try again. As a policy: how often and how far apart. Raised in a handler: this once, after a time.

    Policy: `Retry(attempts, base, cap, jitter)` waits base, 2·base, 4·base, … up to cap, each ± jitter (a
    share of 1) [O2]. `factor=4` waits four times as long each time, `factor=1` always as long, and `base=0`
    tries again at once. `Retry(waits=["1m", "4m", "16m"])` says each wait itself: four attempts, or as many
    more as `attempts` says, with the last wait repeated. Without both there are five.

    Raised: `Retry(after="10s")` waits exactly that; a bare `Retry()` waits as the task's policy says. The
    attempt counts as failed either way.

    With `on`, a policy retries errors of these classes and their subclasses only; what is in `never` is not
    retried, whatever `on` says [O9]. Such a job goes to the dead letters at once, with a reason that says so.
    Causes of an error are not looked at. A class may be given as text, "httpx.TimeoutException". A handler
    that raises `Retry` itself is tried again.
    """

    def __init__(  # noqa: PLR0913 - what a policy may say
        self,
        attempts: int | None = None,
        *,
        base: Duration = 5.0,
        cap: Duration = 1800.0,
        jitter: float = 0.1,
        factor: float = 2.0,
        waits: Iterable[Duration] | None = None,
        after: Duration | None = None,
        on: ErrorKind | Iterable[ErrorKind] | None = None,
        never: ErrorKind | Iterable[ErrorKind] | None = None,
    ) -> None:
        given = _waits(waits)
        if attempts is None:
            attempts = min(len(given) + 1, MAX_ATTEMPTS) if given else DEFAULT_ATTEMPTS
        if type(attempts) is not int or not 1 <= attempts <= MAX_ATTEMPTS:
            raise ConfigurationError(
                f"Retry({attempts!r}): attempts must be a whole number from 1 to {MAX_ATTEMPTS}; "
                "a delay for one retry is written Retry(after='10s')"
            )
        if len(given) >= attempts:
            unused = ", ".join(f"{each:g} s" for each in given[attempts - 1 :][:3])
            more = f", or give {len(given) + 1} attempts" if len(given) < MAX_ATTEMPTS else ""
            raise ConfigurationError(
                f"Retry({attempts}, waits=…): {attempts} attempts have {attempts - 1} waits between, and "
                f"waits names {len(given)}; leave out {unused}{more}"
            )
        if type(jitter) not in (int, float) or not 0 <= jitter <= 1:
            raise ConfigurationError(f"Retry(jitter={jitter!r}): jitter is a share between 0 and 1")
        if type(factor) not in (int, float) or not 1 <= factor <= MAX_FACTOR:
            raise ConfigurationError(
                f"Retry(factor={factor!r}): by this number each wait is longer, from 1 to {MAX_FACTOR}"
            )
        plain = (base, cap, factor) == (5.0, 1800.0, 2.0)
        if after is not None and not (on is never is waits is None and plain):
            raise ConfigurationError(
                "Retry(after=…) is raised; on=, never=, base=, factor=, cap= and waits= belong to a task's "
                "policy; leave one out"
            )
        if waits is not None and not plain:
            raise ConfigurationError(
                "Retry(waits=…) says each wait itself; leave out base=, cap= and factor="
            )
        self.attempts = attempts
        self.rules: Final = RetryRules(_kinds("on", on), _kinds("never", never))
        if twice := [kind_name(kind) for kind in self.rules.on if kind in self.rules.never]:
            raise ConfigurationError(f"Retry(on=…, never=…): {', '.join(twice)} is in both; leave it in one")
        self.backoff: Final = Backoff(
            _span("Retry(base", base), _span("Retry(cap", cap), jitter, factor, given
        )
        self.after: Final = None if after is None else min(_span("Retry(after", after), MAX_DELAY)
        waits = f"in {self.after:g} s" if self.after is not None else "later"
        super().__init__(f"the handler asked to be tried again {waits}")

    def __repr__(self) -> str:
        if self.after is not None:
            return f"Retry(after={self.after:g})"
        rules = {"on": self.rules.on, "never": self.rules.never}
        kinds = [f", {word}=({', '.join(map(kind_name, found))})" for word, found in rules.items() if found]
        backoff = self.backoff
        times = f"base={backoff.base:g}, cap={backoff.cap:g}"
        if backoff.waits:
            times = f"waits=[{', '.join(f'{wait:g}' for wait in backoff.waits)}]"
        elif backoff.factor != 2:
            times += f", factor={backoff.factor:g}"
        return f"Retry({self.attempts}, {times}, jitter={backoff.jitter:g}{''.join(kinds)})"


class Snooze(Ending):
    """Run this job again after a while. The attempt is not charged."""

    def __init__(self, delay: Duration) -> None:
        self.delay: Final = min(_span("Snooze(delay", delay), MAX_DELAY)
        """Seconds to wait."""
        super().__init__(f"snoozed for {self.delay:g} s")


class Throttled(Ending):
    """The service behind the handler asked for less. The attempt is not charged.

    `retry_after` is the service's own hint; the job waits at least that long, but never longer than its
    queue's `cool_cap` (30 min), and 60 s without a hint.
    """

    def __init__(self, retry_after: Duration | None = None) -> None:
        if retry_after is not None:
            retry_after = min(_span("Throttled(retry_after", retry_after), MAX_DELAY)
        self.retry_after: float | None = retry_after
        hint = "" if self.retry_after is None else f", with a hint of {self.retry_after:g} s"
        super().__init__(f"throttled{hint}")


class Dead(Ending):
    """Trying again is pointless: the job goes to the dead letters at once, with this reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class SourceGone(Ending):
    """The job's subject no longer exists, so there is nothing left to do. The job ends well."""

    def __init__(self, reason: str = "the source is gone") -> None:
        self.reason = reason
        super().__init__(reason)


class Cancelled(Ending):
    """The run was stopped half-way and the job ends as cancelled, without another attempt. `ctx.check()`
    raises it in plain functions, which nothing can interrupt from outside [O5]."""

    def __init__(self, reason: str = "the handler stopped, as it was asked to") -> None:
        self.reason = reason
        super().__init__(reason)
