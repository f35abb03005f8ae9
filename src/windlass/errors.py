"""Every exception Windlass raises on purpose lives here; nothing else does.

WindlassError
├── ConfigurationError          the app or its settings cannot work as written
│   ├── SchemaTooNew            the database was migrated by a newer Windlass
│   ├── SchemaUnreleased        the database was made by a Windlass that was never released
│   └── SchemaMissing           the database was never migrated, or not to this version
├── EnqueueError                refused before anything was written
│   ├── InvalidName             task or queue name outside [a-z0-9_.-]{1,64}
│   ├── InvalidArguments        arguments do not fit the task's annotations
│   ├── InvalidPayload          unserialisable, NaN, NUL bytes
│   ├── PayloadTooLarge         more than 1 MiB
│   ├── InvalidOption           an option out of its range
│   ├── AlreadyEnqueued         unique key held, policy "reject"
│   └── Refused                 not now: `retry_after` says when to try again
│       ├── QueueFull           the queue has reached its max_depth [F4]
│       └── Shed                too much is going on for a job of this priority [F5]
├── WorkerLost                  a write by a worker that is no longer alive [C5]
├── ClaimLost                   a write for a claim that is not (or no longer) the worker's [C5]
├── TermLost                    a write of a coordinator whose term is over [K3]
├── Finalizing                  a part cannot come back while its parent's finalizer is out [P9]
├── JobNotFound
├── QueueNotFound
├── ResultTimeout               the result did not arrive in time
├── BudgetTimeout               the tokens of a budget did not arrive in time [F1]
├── QueueNotEmpty               a queue still has jobs that are ready or running [K11]
├── JobFailed                   the awaited job ended dead or cancelled
├── ResultInvalid               the kept result does not fit the task's return annotation
├── GroupClosed                 a group takes no more jobs [W4]
├── StepChanged                 a saved step was made by other code than the one that asks for it [W1]
├── SignalRefused               the job takes no signal, or not this one [W2]
├── WaitTimedOut                the signal that a job waited for did not come in time [W2]
├── CodecError                  what is stored cannot be read with the app's codec
│   └── MissingKey              it was encrypted with a key that this app does not have
├── RemoteError                 what a function raised in another process
├── PoolError                   a child of a pool died, or answered garbage
├── CommandFailed               a command ended with a code other than 0
├── EmptyRun                    a run that has seen nothing may not replace a set [P6]
├── SourceError                 the source of a chunked job cannot be read
│   ├── BadRecord               a line is not a record: malformed, of another shape, or too long [P2]
│   ├── BadArchive              a gzip or zstd file is cut short or damaged [P2]
│   └── SourceChanged           the file is not the one that was split; enqueue the job anew
└── StoreError
    ├── StoreUnavailable        the database could not be reached; trying again is right
    │   ├── StoreBusy           it did not answer in time: it is slow, or something is locked
    │   └── StoreReadOnly       it can be read and not written: a standby, or a session that may only read
    ├── StoreForbidden          the role that we connect as may not do this
    ├── StoreMoved              its jobs were copied to another store, and it takes no more
    ├── StoreFull               disk or size limit reached
    └── StoreCorrupt            an invariant of the logs does not hold
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from windlass.tasks.commands import CommandResult

SHOWN_STDERR: Final = 1_500


class WindlassError(Exception):
    """Base of every exception that Windlass raises on purpose."""


class ConfigurationError(WindlassError):
    """The app or its settings cannot work as written."""


class SchemaTooNew(ConfigurationError):
    """The database was migrated by a newer Windlass than this one."""


class SchemaUnreleased(ConfigurationError):
    """The database was made by a Windlass that was never released, or whose first migration was edited since.
    No other version can migrate it: use another one, or an empty schema or file."""


class SchemaMissing(ConfigurationError):
    """The database holds no Windlass schema yet, or one that is older than this Windlass: run
    `windlass migrate`."""


class EnqueueError(WindlassError, ValueError):
    """An enqueue was refused; nothing was written."""


class InvalidName(EnqueueError):
    """A task or queue name outside `[a-z0-9_.-]{1,64}` [E4]."""


class InvalidArguments(EnqueueError, TypeError):
    """Arguments that do not fit the task's signature or annotations [E3]."""


class InvalidPayload(EnqueueError):
    """A payload that cannot be stored: unserialisable, NaN, NUL bytes [E4]."""


class PayloadTooLarge(EnqueueError):
    """A payload of more than 1 MiB [E4]."""


class InvalidOption(EnqueueError):
    """An option out of its range, such as a run_at in the year 9999 [E4]."""


class AlreadyEnqueued(EnqueueError):
    """The unique key is held by an unfinished job and the policy is "reject" [E6]."""

    def __init__(self, message: str, job: int | None = None) -> None:
        super().__init__(message)
        self.job = job


class Refused(EnqueueError):
    """A queue takes no job of this priority right now; nothing was written. `retry_after` is when to try
    again, in seconds; `status` is what HTTP calls it."""

    status: ClassVar[int] = 503

    def __init__(self, message: str, queue: str, retry_after: float) -> None:
        super().__init__(message)
        self.queue = queue
        self.retry_after = retry_after


class QueueFull(Refused):
    """The queue has reached its max_depth, or was full and has not yet fallen to 60 % of it [F4]."""

    status = 429


class Shed(Refused):
    """Too much is going on, by depth, by the wait of the oldest job or by the store's latency, for another
    job of this priority [F5]. `level` is how much: 1 is the limit."""

    status = 503

    def __init__(self, message: str, queue: str, retry_after: float, level: float) -> None:
        super().__init__(message, queue, retry_after)
        self.level = level


class WorkerLost(WindlassError):
    """A write by a worker that was retired or rescued; its jobs belong to others now [C5]."""


class ClaimLost(WindlassError):
    """A write for a claim or job that is not, or no longer, the worker's own [C5]."""


class TermLost(WindlassError):
    """A write of a coordinator whose term has run out or passed to another [K3]."""


class Finalizing(WindlassError):
    """Failed parts cannot run again now: the finalizer of their parent waits or runs, and never runs beside
    parts [P9]."""

    def __init__(self, message: str, final: int | None = None) -> None:
        super().__init__(message)
        self.final = final
        """The finalizer's job."""

    @classmethod
    def of(cls, parent: int, final: int) -> Finalizing:
        """The refusal of the stores."""
        return cls(
            f"parts of parent {parent} cannot run again while its finalizer, job {final}, has not ended. "
            "Wait for its end, or cancel that job first",
            final,
        )


class JobNotFound(WindlassError, LookupError):
    """No job with this id: it never existed, was deleted, or its retention has passed."""


class QueueNotFound(WindlassError, LookupError):
    """No queue with this name: nobody has declared it, enqueued to it or served it."""


class ResultTimeout(WindlassError, TimeoutError):
    """The job did not finish within the time given."""


class BudgetTimeout(WindlassError, TimeoutError):
    """A budget had not so many tokens within the time given; none were taken [F1]."""


class QueueNotEmpty(WindlassError, TimeoutError):
    """A queue still had jobs that were ready or running when the time given was over [K11]."""


class JobFailed(WindlassError):
    """The awaited job ended as dead or cancelled, so it has no result."""


class ResultInvalid(WindlassError):
    """The job has succeeded, and what it returned is not what its task's return annotation says. The value is
    kept: `job.record().result` has it as JSON does."""


class GroupClosed(WindlassError):
    """The group takes no more jobs: it was closed, or its end was cancelled, retried or has come [W4]. Open
    another one."""


class CircularWait(ConfigurationError):
    """A job that comes after a group, itself or by jobs between them, was to be added to it [W4]: each would
    wait for the other. Enqueue it after the group, with `on_success` or `on_end`."""


class StepChanged(WindlassError):
    """A job has done a step of this name by other code than the one that asks for its result now [W1]. Give
    the step another name, or say that the old result will do: `accepts=(…)`."""


class SignalRefused(WindlassError):
    """A signal was not sent [W2]. `why` is "ended" where the job has ended, "full" where it has not taken a
    thousand that it was sent before, and "used" where the address has sent its one signal."""

    def __init__(self, message: str, why: str = "ended") -> None:
        super().__init__(message)
        self.why = why


class WaitTimedOut(WindlassError, TimeoutError):
    """The signal that a job waited for did not come in time [W2]. The wait stays timed out for the job, also
    where the signal comes later. Uncaught, it ends the job dead, without another attempt."""

    def __init__(self, message: str, signal: str = "") -> None:
        super().__init__(message)
        self.signal = signal
        """The name of the signal."""


class CodecError(WindlassError):
    """A stored value cannot be read with the app's codec: another one wrote it, the key is a wrong one, or
    the value was changed. Another worker may be able to, so the next try of its job is at least a minute
    away; when it is dead it is kept with its payload."""


class MissingKey(CodecError):
    """A value was encrypted with a key that this app does not have; `key` is its id. During a rotation
    another worker may have it."""

    def __init__(self, message: str, key: str) -> None:
        super().__init__(message)
        self.key = key


class RemoteError(WindlassError):
    """An error that a function raised in another process. Its text is that exception's own; `remote_type` and
    `remote_traceback` say what it was and where it came from, `not_retried` why its task's policy does not
    retry it, None where it does."""

    def __init__(
        self, remote_type: str, message: str, remote_traceback: str, not_retried: str | None = None
    ) -> None:
        super().__init__(message)
        self.not_retried = not_retried
        self.remote_type = remote_type
        self.remote_traceback = remote_traceback


class PoolError(WindlassError):
    """A child of a pool died, answered garbage or could not be started. `stderr` is the end of what it wrote
    there while it worked on the request."""

    def __init__(self, message: str, stderr: str = "") -> None:
        shown = stderr.strip()[-SHOWN_STDERR:]
        super().__init__(f"{message}; its stderr ends with:\n{shown}" if shown else message)
        self.stderr = stderr


class CommandFailed(WindlassError):
    """A command ended with a code other than 0; `result` says how. Its job is tried again as the task's
    policy says."""

    def __init__(self, message: str, result: CommandResult) -> None:
        super().__init__(message)
        self.result = result


class SourceError(WindlassError):
    """The source of a chunked job cannot be read."""


class BadRecord(SourceError, ValueError):
    """A line is not a record: malformed, of another shape than `type` says, or too long [P2]. `offset` is
    where in the file it begins, in decompressed bytes."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class BadArchive(SourceError):
    """A gzip or zstd file is cut short or damaged [P2]."""


class SourceChanged(SourceError):
    """The file is not the one that was split, so its parts no longer fit it. Enqueue the job anew."""


class EmptyRun(WindlassError):
    """A run has seen no row of its set, so its replacement would leave nothing; nothing was removed [P6]."""


class StoreError(WindlassError):
    """The store could not do what was asked."""


class StoreUnavailable(StoreError):
    """The database cannot be reached at the moment; the same call may succeed later."""


class StoreBusy(StoreUnavailable):
    """The database did not answer in time: it is slow, or somebody holds a lock; what was sent may have been
    done all the same."""


class StoreReadOnly(StoreUnavailable):
    """The database can be read and not written: it is a standby, or the session may only read. Once the
    standby is promoted the same call succeeds."""


class StoreMoved(StoreError):
    """The jobs of this store were copied to another one, or are being copied: it takes no new jobs and no
    workers. The message says where they went."""


class StoreForbidden(StoreError):
    """The role that we connect as may not do this; the message says who can give it the right."""


class StoreFull(StoreError):
    """The disk or the size limit of the store is exhausted."""


class StoreCorrupt(StoreError):
    """An invariant of the logs does not hold; see the message for what to do."""
