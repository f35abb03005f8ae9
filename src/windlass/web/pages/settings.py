"""Settings in a form: an input for each setting of a queue, a task or a budget, made from
`windlass.store.fields`, and what a form changes."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.store.changes import READERS
from windlass.store.fields import Field, fields_of
from windlass.web.http.problems import Invalid, Problem
from windlass.web.pages.forms import Form


class Input(msgspec.Struct, frozen=True):
    """One input of a form."""

    name: str
    title: str
    value: str
    hint: str
    """The meaning of an empty one."""
    choices: tuple[str, ...] = ()


def inputs(record: type[msgspec.Struct], now: Any, form: Form | None = None) -> list[Input]:
    """The inputs for the settings of a record, as they are now, or as they were typed where a form was
    sent."""
    return [
        Input(
            name=field.name,
            title=field.label,
            value=form.text(field.name)
            if form is not None and field.name in form
            else field.text(getattr(now, field.name)),
            hint=field.default_text,
            choices=tuple(field.unit.split(", ")) if field.kind is bool else (),
        )
        for field in _fields(record)
    ]


def changes(record: type[msgspec.Struct], now: Any, form: Form) -> dict[str, Any]:
    """The settings that a form changes; an empty input stands for the default, if there is one."""
    found: dict[str, Any] = {}
    for field in _fields(record):
        if field.name in form and form.text(field.name) != field.text(getattr(now, field.name, None)):
            value = _read(field, form)
            found[field.name] = field.default if value is None else value
    return {
        name: value
        for name, value in found.items()
        if value != getattr(now, name, None) and (value is not None or fields_of(record)[name].optional)
    }


def wrong_in(record: type[msgspec.Struct], problem: Problem | None) -> str:
    """The setting that is wrong, found in the text of the store's error."""
    if problem is None:
        return ""
    named = (each.name for each in _fields(record) if each.name in problem.message)
    return problem.field or max(named, key=len, default="")


def _fields(record: type[msgspec.Struct]) -> list[Field]:
    return [field for field in fields_of(record).values() if not field.verbs]


def _read(field: Field, form: Form) -> Any:
    text = form.text(field.name)
    if field.kind is int and field.unit not in ("size", "cap"):
        return form.whole(field.name)
    if field.kind is bool:
        yes, _no = field.unit.split(", ")
        return text == yes if text else None
    if not text or field.kind is str:
        return text or None
    try:
        return READERS[field.unit](text)
    except ValueError as error:
        raise Invalid(f"{field.label.lower()}: {error}", field.name) from error
