"""The options that change settings of a queue, a task or a budget, those of a job to enqueue, and how
settings are printed: one of each for every entry of `windlass.store.fields`."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any, Final, TypeVar, cast

import click
import msgspec
from click.types import convert_type

from windlass.cli.options import JobId, OrWord, QueueName, Reader, Span, Written, header, moment
from windlass.core.flow.rates import rate_text
from windlass.presentation.text import one_line, span
from windlass.store.fields import Field, JobOptions, Unit, fields_of
from windlass.store.records import JOB_OPTIONS
from windlass.tasks.schedule_options import NOT_OF_SCHEDULES

F = TypeVar("F", bound=Callable[..., Any])
_LISTS: Final = ("ids", "tags", "headers")
_HOW: Final = {
    **dict.fromkeys(_LISTS, " It may be repeated."),
    "moment": " ISO 8601, local without an offset.",
}
_TEXTS: Final[tuple[Unit, ...]] = ("argument", "key", "text")
READERS: Final[Mapping[Unit, tuple[Reader, str | None]]] = {
    "time": (Span(), "DURATION"),
    "rate": (Written("rate"), "RATE"),
    "size": (Written("size", least=1), "SIZE"),
    "cap": (Written("cap", least=1), "CAP"),
    "on, off": (click.BOOL, "on|off"),
    "moment": (convert_type(moment), "TIME"),
    "ids": (JobId(), "ID"),
    "tags": (click.STRING, "TAG"),
    "headers": (convert_type(header), "KEY=TEXT"),
    "abilities": (click.STRING, "NAME[,NAME…]"),
    **{unit: (click.STRING, unit.upper()) for unit in _TEXTS},
    "zone": (click.STRING, "ZONE"),
    "name": (QueueName(), "NAME"),
}
"""Other units are whole numbers, or have choices."""


def setting_options(record: type[msgspec.Struct], word: str = "none") -> Callable[[F], F]:
    """An option for each setting of a record; `word` brings a default back."""

    def decorate(function: F) -> F:
        for field in reversed([*fields_of(record).values()]):
            if not field.verbs:
                function = _option(field, word)(function)
        return function

    return decorate


def job_options(function: F) -> F:
    """An option for each option of a job but a connection, which only code has."""
    return _job_options(function, ())


def schedule_job_options(function: F) -> F:
    """An option for each option that the jobs of a schedule can have."""
    return _job_options(function, (*NOT_OF_SCHEDULES, "debounce"))


def _job_options(function: F, left_out: Container[str]) -> F:
    fields = [each for name, each in JOB_OPTIONS.items() if name not in left_out]
    for field in reversed([each for each in fields if each.unit != "connection"]):
        function = _option(field)(function)
    return function


def change_options(function: F) -> F:
    """An option for each option of a job that can be changed while it waits [E8]."""
    for field in reversed([each for each in JOB_OPTIONS.values() if each.change]):
        function = _option(msgspec.structs.replace(field, default=None, unset=""))(function)
    return function


def given_options(given: Mapping[str, Any]) -> JobOptions:
    """The options of a job that were given, as `using` takes them, which checks them."""
    options = {name: value for name, value in given.items() if value not in (None, ())}
    if "headers" in options:
        options["headers"] = dict(options["headers"])
    return cast(JobOptions, options)


def changes_of(record: type[msgspec.Struct], given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that were given, as a store takes them."""
    fields = fields_of(record)
    return {
        name: fields[name].default if value is OrWord.UNSET else value
        for name, value in given.items()
        if value is not None
    }


def shown(value: Any, unit: Unit | None, none: str = "none") -> str:
    """A value as it is printed; `none` stands for no value."""
    if value is None:
        return none
    if isinstance(value, bool):
        return "yes" if value else "no"
    if unit == "rate":
        return rate_text(value)
    if unit == "time":
        return span(value)
    return f"{value:,}" if isinstance(value, int) else one_line(str(value))


def _option(field: Field, word: str | None = None) -> Callable[[F], F]:
    many = field.unit in _LISTS
    flag = (field.name.removesuffix("s") if many else field.name).replace("_", "-")
    default = f" [{field.default_text}]" if field.default_text else ""
    text = f"{field.help}{_HOW.get(field.unit, '')}{default}"
    if field.unit == "yes, no":
        return click.option(f"--{flag}/--no-{flag}", default=None, help=text)
    kind, metavar = READERS.get(field.unit) or (click.IntRange(min=0 if field.zero else 1), "N")
    if field.choices:
        kind, metavar = click.Choice(field.choices), f"[{'|'.join(field.choices)}]"
    if word and field.kind is not bool and (field.optional or field.default is not None):
        kind = OrWord(kind, word)
    return click.option(f"--{flag}", field.name, type=kind, metavar=metavar, multiple=many, help=text)
