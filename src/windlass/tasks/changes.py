"""How a change of a waiting job is read [E8]: its options as at an enqueue [E4], its arguments against the
annotations of its task, where that is known here [E3]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from windlass.errors import InvalidArguments, InvalidOption
from windlass.handles.results import handed_in
from windlass.store.fields import JobOptions
from windlass.store.records import JOB_OPTIONS, JobChange, JobRecord, NewJob, Options
from windlass.tasks.limits import KEYS
from windlass.tasks.options import Template

if TYPE_CHECKING:
    from windlass.app import Windlass

CHANGEABLE: Final = tuple(name for name, field in JOB_OPTIONS.items() if field.change)
"""The options that can be changed while a job waits."""
_ARGUMENTS: Final = ("args", "kwargs")


def read_change(app: Windlass, record: JobRecord, given: Mapping[str, Any]) -> JobChange:
    """The change of this job that is asked for. Raises an EnqueueError that says what is wrong with it."""
    if not given:
        raise InvalidOption(f"say what to change of job {record.id}: {', '.join((*CHANGEABLE, *_ARGUMENTS))}")
    for name in given:
        if name not in CHANGEABLE and name not in _ARGUMENTS:
            raise InvalidOption(
                f"{name!r} of a waiting job cannot be changed; {', '.join((*CHANGEABLE, *_ARGUMENTS))} can"
            )
    asked = {name: value for name, value in given.items() if name not in _ARGUMENTS}
    read = Template().using(cast("JobOptions", asked))
    kept = {JOB_OPTIONS[name].kept for name in asked}
    options = {name: getattr(read.options, name) for name in kept if name in Options.__struct_fields__}
    plain = {name: getattr(read, name) for name in kept if name not in Options.__struct_fields__}
    new = _called(app, record, given) if given.keys() & set(_ARGUMENTS) else None
    if new is not None:
        options |= _made(app, record, new)
    return JobChange(**plain, options=options, payload=None if new is None else new.payload)


def _called(app: Windlass, record: JobRecord, given: Mapping[str, Any]) -> NewJob:
    """A job of the same task with the new arguments."""
    args, kwargs = given.get("args", ()), given.get("kwargs", {})
    if isinstance(args, str) or not isinstance(args, Sequence) or not isinstance(kwargs, Mapping):
        raise InvalidArguments(
            f"task {record.task}: write args=[…] for positional arguments and kwargs={{…}} for named ones"
        )
    if record.options.results or handed_in(tuple(args), kwargs):
        raise InvalidArguments(
            f"task {record.task}: the arguments of a job that gets results of others cannot be changed; "
            "cancel it and enqueue another"
        )
    return app.named(record.task)._called(tuple(args), kwargs)


def _made(app: Windlass, record: JobRecord, new: NewJob) -> dict[str, Any]:
    """Return the values that new arguments make: what the job costs, and its keys where the old ones have
    made them: a key that was given for the job itself stays."""
    task = app.tasks.get(record.task)
    if task is None or not task.limits.reads_arguments:
        return {}
    costs = {"costs": new.options.costs} if new.options.costs != record.options.costs else {}
    keys = {name: (getattr(record.options, name), getattr(new.options, name)) for name in KEYS}
    made = {
        name: now
        for name, (was, now) in keys.items()
        if now is not None and (was is None or was.startswith(f"{record.task}:"))
    }
    return {**costs, **made}
