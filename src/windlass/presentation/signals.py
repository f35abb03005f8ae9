"""Waits as JSON, and the forms that answer them [W2]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from windlass.core.json_shapes import FormField, form_fields
from windlass.core.read_errors import READ_ERRORS
from windlass.presentation.text import iso
from windlass.store.records import WaitRecord

NAME_OF_VALUE: Final = "value"
YES: Final = "yes"


class WaitShape(msgspec.Struct, frozen=True, kw_only=True):
    """What a job waits for."""

    job: str
    task: str
    queue: str
    signal: str
    since: str | None
    until: str | None
    """When it times out; null: never."""
    shape: Any = None
    """The JSON schema of the value, where the handler names its type."""
    cursor: str
    """Names the place in the list, for the next page."""


class WrongField(ValueError):
    """A field of a form cannot be read."""


def wait_shape(wait: WaitRecord) -> WaitShape:
    """A wait as JSON has it."""
    return WaitShape(
        job=str(wait.job),
        task=wait.task,
        queue=wait.queue,
        signal=wait.signal,
        since=iso(wait.since),
        until=iso(wait.until),
        shape=shape_of(wait),
        cursor=str(wait.number),
    )


def shape_of(wait: WaitRecord) -> Any:
    """The JSON schema of the value that a job waits for; None where there is none that can be read."""
    try:
        return None if wait.shape is None else msgspec.json.decode(wait.shape)
    except READ_ERRORS:
        return None


def fields_shown(wait: WaitShape) -> list[tuple[str, FormField]] | None:
    """The fields of the form that answers a wait, each with its name in the form; None: a box for JSON."""
    found = form_fields(wait.shape)
    return None if found is None else [(f"{NAME_OF_VALUE}-{no}", each) for no, each in enumerate(found)]


def read_fields(wait: WaitShape, text: Callable[[str], str]) -> Any:
    """The value that a form was filled in with. Raises WrongField, which says what is wrong with which."""
    fields = fields_shown(wait)
    if fields is None:
        try:
            return msgspec.json.decode(text(NAME_OF_VALUE) or "null")
        except READ_ERRORS as error:
            raise WrongField(f"the value is no JSON: {error}") from None
    value = {
        field.name: each for name, field in fields if (each := _read(field, text(name))) is not msgspec.UNSET
    }
    if len(fields) == 1 and fields[0][1].name == "":
        return value.get("")
    return value


def _read(field: FormField, text: str) -> Any:
    """One field; UNSET where it was left empty and may be."""
    if field.kind == "yes_no":
        return text == YES
    if field.kind == "text" and (text or field.required):
        return text
    if not text:
        if field.required:
            raise WrongField(f"{field.name or 'the value'}: fill this in")
        return msgspec.UNSET
    try:
        if field.kind == "choice":
            return field.choices[int(text)]
        return int(text) if field.kind == "whole" else float(text)
    except (ValueError, IndexError):
        said = {"choice": "choose one of the list", "whole": "give a whole number"}
        raise WrongField(f"{field.name or 'the value'}: {said.get(field.kind, 'give a number')}") from None
