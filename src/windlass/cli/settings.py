"""The options that change settings, and how settings are printed: one of each for every setting of a queue, a
task or a budget, made from `windlass.store.fields`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import click
import msgspec

from windlass.cli.options import OrWord, PerSecond, Reader, Span
from windlass.cli.target import Target, refusals
from windlass.core.rates import rate_text
from windlass.presentation.audit import AuditEntry
from windlass.presentation.text import one_line, span
from windlass.store.fields import Field, Unit, fields_of
from windlass.store.protocol import Store

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R", bound=msgspec.Struct)


def setting_options(record: type[msgspec.Struct], word: str = "none") -> Callable[[F], F]:
    """An option for each setting of a record; `word` brings a default back."""

    def decorate(function: F) -> F:
        for field in reversed([*fields_of(record).values()]):
            if not field.verbs:
                function = _option(field, word)(function)
        return function

    return decorate


def changes_of(record: type[msgspec.Struct], given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that were given, as a store takes them."""
    fields = fields_of(record)
    return {
        name: fields[name].default if value is OrWord.UNSET else value
        for name, value in given.items()
        if value is not None
    }


def change(
    target: Target,
    name: str,
    changes: Mapping[str, Any],
    set_of: Callable[[Store], Callable[[str, Mapping[str, Any]], Awaitable[R]]],
    entry: Callable[[str, Mapping[str, Any]], AuditEntry],
    about: str = "",
) -> R:
    """Change settings of what has this name, or make it; the record as it is then."""
    with refusals(about):
        return target.act(
            lambda store: set_of(store)(name, changes), lambda _: [entry(name, changes)], create=True
        )


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


def _option(field: Field, word: str) -> Callable[[F], F]:
    name = field.name.replace("_", "-")
    default = f" [{field.default_text}]" if field.default_text else ""
    if field.unit == "yes, no":
        return click.option(f"--{name}/--no-{name}", default=None, help=field.help + default)
    kind, metavar = _reader(field)
    if field.kind is not bool and (field.optional or field.default is not None):
        kind = OrWord(kind, word)
    return click.option(f"--{name}", type=kind, metavar=metavar, help=field.help + default)


def _reader(field: Field) -> tuple[Reader, str]:
    match field.unit:
        case "time":
            return Span(), "DURATION"
        case "rate":
            return PerSecond(), "RATE"
        case "on, off":
            return click.BOOL, "on|off"
        case "argument":
            return click.STRING, "ARGUMENT"
    return click.IntRange(min=0 if field.zero else 1), "N"
