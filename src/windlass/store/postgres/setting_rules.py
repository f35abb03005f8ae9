"""What settings may be, for the functions that users call from SQL: the rules of `windlass.store.fields`, put
into check_settings when the functions are loaded."""

from __future__ import annotations

from typing import Final

from windlass.store.fields import SUBJECTS, Field, fields_of

_MARK: Final = "/* rules of windlass.store.fields */"
_TYPES: Final = {bool: "boolean", int: "number", float: "number", str: "string"}


def with_rules(functions: str) -> str:
    """These functions, with a rule for each setting."""
    rules = (_rule(what, field) for what, record in SUBJECTS.items() for field in fields_of(record).values())
    return functions.replace(_MARK, "".join(f",\n        {rule}" for rule in rules))


def _rule(what: str, field: Field) -> str:
    name, type = field.name, _TYPES[field.kind]
    nullable, whole, zero = (str(each).lower() for each in (field.optional, field.kind is int, field.zero))
    most = "NULL" if field.most is None else field.most
    return f"('{what}', '{name}', '{type}', {nullable}, {whole}, {zero}, {most}, '{field.allowed}')"
