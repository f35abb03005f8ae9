"""The forms that answer waits [W2], made of the JSON schema of the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from windlass.core.json_shapes import FormField, form_fields
from windlass.core.read_errors import READ_ERRORS

NAME_OF_VALUE: Final = "value"
YES: Final = "yes"


class WrongField(ValueError):
    """A field of a form cannot be read."""


def fields_shown(shape: Any) -> list[tuple[str, FormField]] | None:
    """The fields of the form that answers a wait, each with its name in the form; None: a box for JSON."""
    found = form_fields(shape)
    return None if found is None else [(f"{NAME_OF_VALUE}-{no}", each) for no, each in enumerate(found)]


def read_fields(shape: Any, text: Callable[[str], str]) -> Any:
    """The value that a form was filled in with. Raises WrongField, which says what is wrong with which."""
    fields = fields_shown(shape)
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
