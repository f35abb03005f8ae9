"""The rules of settings and job options, for the functions that users call from SQL: the rules of
`windlass.store.fields`, put into check_settings and check_options when the functions are loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from windlass.store.fields import MAX_KEY, SUBJECTS, Field, Unit, fields_of
from windlass.store.records import CARRIED

_MARK: Final = "/* rules of windlass.store.fields */"
_OPTIONS_MARK: Final = "/* rules of the options of a job */"
_TYPES: Final = {bool: "boolean", int: "number", float: "number", str: "string"}

_WRONG_TEXT: Final = "TYPE NOT IN ('string', 'null') OR char_length(TEXT) NOT BETWEEN 1 AND MOST"
_WRONG: Final[Mapping[Unit, str]] = {
    "time": "TYPE NOT IN ('number', 'null') OR TEXT::numeric NOT BETWEEN LEAST AND MOST",
    "key": _WRONG_TEXT,
    "text": _WRONG_TEXT,
    "choice": "TYPE <> 'string' OR TEXT NOT IN (CHOICES)",
    "ids": "TYPE <> 'array' OR o @? 'strict $.NAME[*] ? "
    '(@.type() != "number" || @ < 1 || @ > 9223372036854775807 || @.floor() != @)\'',
    "tags": "TYPE <> 'array' OR o @? 'strict $.NAME[*] ? (@.type() != \"string\")'",
    "abilities": "TYPE <> 'string' OR TEXT !~ '^([a-z0-9_.-]{1,64}(,[a-z0-9_.-]{1,64}){0,7})?$'",
    "headers": "TYPE <> 'object' OR o @? 'strict $.NAME.* ? (@.type() != \"string\")'",
}
_WRONG_NUMBER: Final = "TYPE <> 'number' OR TEXT !~ '^[1-9][0-9]{0,DIGITS}$' OR TEXT::bigint > MOST"
"""When an option of a unit is refused, or one that counts. How many there may be of a list, and how long its
texts, is left to those who make it."""


def with_rules(functions: str) -> str:
    """These functions, with a rule for each setting and each option of a job."""
    rules = (_rule(what, field) for what, record in SUBJECTS.items() for field in fields_of(record).values())
    functions = functions.replace(_MARK, ",\n               ".join(rules))
    options = (f"WHEN {_wrong(field)}\n        THEN '{field.kept}: {field.allowed}'" for field in CARRIED)
    return functions.replace(_OPTIONS_MARK, "\n        ".join(options))


def _rule(what: str, field: Field) -> str:
    name, type = field.name, _TYPES[field.kind]
    nullable, whole, zero = (str(each).lower() for each in (field.optional, field.kind is int, field.zero))
    most = field.most or (MAX_KEY if field.kind is str else "NULL")
    choices = f"'{{{','.join(field.choices)}}}'::text[]" if field.choices else "NULL"
    bounds = f"{nullable}, {whole}, {zero}, {most}, {choices}"
    return f"('{what}', '{name}', '{type}', {bounds}, '{field.allowed}')"


def _wrong(field: Field) -> str:
    rule = _WRONG.get(field.unit, _WRONG_NUMBER)
    for word, value in {
        "TYPE": "jsonb_typeof(o -> 'NAME')",
        "TEXT": "(o ->> 'NAME')",
        "NAME": field.kept,
        "CHOICES": ", ".join(f"'{each}'" for each in field.choices),
        "DIGITS": str(len(str(field.most)) - 1),
        "LEAST": "0" if field.zero else "0.001",
        "MOST": str(field.most),
    }.items():
        rule = rule.replace(word, value)
    return rule
