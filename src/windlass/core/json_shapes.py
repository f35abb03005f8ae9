"""JSON schemas, as far as a form needs them: which fields it has, and whether a value fits [W2].

Known are types, enums, constants, objects with properties, lists, alternatives and references, which is what
msgspec and pydantic write of types. What is not known here is not judged: the handler's own type decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

Kind = Literal["text", "whole", "number", "yes_no", "choice"]
MAX_FIELDS: Final = 40
MAX_DEPTH: Final = 20
_KINDS: Final[Mapping[str, Kind]] = {
    "string": "text", "integer": "whole", "number": "number", "boolean": "yes_no"
}  # fmt: skip
_NAMES: Final = {
    "string": "a text", "integer": "a whole number", "number": "a number", "boolean": "true or false",
    "object": "an object", "array": "a list", "null": "null",
}  # fmt: skip


class FormField(NamedTuple):
    """One field of a form. Its name is empty where the form is one value."""

    name: str
    kind: Kind
    required: bool
    choices: tuple[Any, ...] = ()
    default: Any = None


def form_fields(schema: Any) -> list[FormField] | None:
    """The fields of a form for a value of this schema; None: it takes a box for JSON."""
    root = _mapping(schema)
    found = _resolved(root, root)
    if found.get("type") != "object":
        single = _field(root, found, "", required=True)
        return None if single is None else [single]
    properties, required = _mapping(found.get("properties")), _listed(found.get("required"))
    if not 0 < len(properties) <= MAX_FIELDS:
        return None
    fields = [_field(root, each, name, required=name in required) for name, each in properties.items()]
    known = [field for field in fields if field is not None]
    return known if len(known) == len(fields) else None


def misfit(schema: Any, value: Any) -> str | None:
    """Say in words why a value does not fit a schema; None if it does, as far as this knows."""
    root = _mapping(schema)
    return _misfit(root, root, value, "it", 0)


def _misfit(root: Mapping[str, Any], schema: Any, value: Any, where: str, depth: int) -> str | None:
    found = _resolved(root, schema)
    if depth > MAX_DEPTH:
        return None
    if alternatives := _listed(found.get("anyOf")) or _listed(found.get("oneOf")):
        wrong = [_misfit(root, each, value, where, depth + 1) for each in alternatives]
        return wrong[0] if all(wrong) else None
    return _misfit_alone(found, value, where) or _misfit_below(root, found, value, where, depth)


def _misfit_alone(found: Mapping[str, Any], value: Any, where: str) -> str | None:
    """Say why a value itself does not fit."""
    if "const" in found and not _same(value, found["const"]):
        return f"{where} must be {found['const']!r}"
    if "enum" in found and not any(_same(value, each) for each in _listed(found["enum"])):
        return f"{where} must be one of {', '.join(map(repr, _listed(found['enum'])))}"
    kinds = found.get("type")
    allowed = [kinds] if isinstance(kinds, str) else _listed(kinds)
    if allowed and not any(_is_a(value, kind) for kind in allowed):
        return f"{where} must be {' or '.join(_NAMES.get(str(kind), str(kind)) for kind in allowed)}"
    return None


def _misfit_below(
    root: Mapping[str, Any], found: Mapping[str, Any], value: Any, where: str, depth: int
) -> str | None:
    """Say why something inside a value does not fit."""
    if isinstance(value, dict):
        return _misfit_in(root, found, value, where, depth)
    if isinstance(value, list) and isinstance(found.get("items"), Mapping):
        wrong = (
            _misfit(root, found["items"], each, f"{where}[{no}]", depth + 1) for no, each in enumerate(value)
        )
        return next((each for each in wrong if each), None)
    return None


def _misfit_in(
    root: Mapping[str, Any], found: Mapping[str, Any], value: dict[str, Any], where: str, depth: int
) -> str | None:
    properties = _mapping(found.get("properties"))
    for name in _listed(found.get("required")):
        if name not in value:
            return f"{where} lacks {name!r}"
    for name, each in value.items():
        if name in properties:
            inner = f"{name!r}" if where == "it" else f"{where}, {name!r}"
            if wrong := _misfit(root, properties[name], each, inner, depth + 1):
                return wrong
        elif found.get("additionalProperties") is False:
            return f"{where} has no {name!r}"
    return None


def _field(root: Mapping[str, Any], schema: Any, name: str, *, required: bool) -> FormField | None:
    found = _resolved(root, schema)
    default = found.get("default")
    alternatives = [_resolved(root, each) for each in _listed(found.get("anyOf"))]
    real = [each for each in alternatives if each.get("type") != "null"]
    if alternatives:
        if len(real) != 1:
            return None
        found, required = real[0], required and len(real) == len(alternatives)
    choices = tuple(_listed(found.get("enum")))
    if choices:
        return FormField(name, "choice", required, choices, default)
    kind = _KINDS.get(str(found.get("type")))
    return None if kind is None else FormField(name, kind, required, (), default)


def _resolved(root: Mapping[str, Any], schema: Any) -> Mapping[str, Any]:
    """A schema without the references that it begins with."""
    found = _mapping(schema)
    for _ in range(MAX_DEPTH):
        alone = _listed(found.get("allOf"))
        if "$ref" not in found and len(alone) == 1:
            found = {**found, **_mapping(alone[0]), "allOf": None}
        ref = found.get("$ref")
        if not isinstance(ref, str) or not ref.startswith("#/"):
            return found
        target: Any = root
        for part in ref[2:].split("/"):
            target = _mapping(target).get(part.replace("~1", "/").replace("~0", "~"))
        found = {**_mapping(target), **{key: value for key, value in found.items() if key == "default"}}
    return {}


_PYTHON: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "object": (dict,),
    "array": (list,), "null": (type(None),),
}  # fmt: skip


def _is_a(value: Any, kind: Any) -> bool:
    known = _PYTHON.get(str(kind))
    return known is None or (isinstance(value, known) and (kind == "boolean" or not isinstance(value, bool)))


def _same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and bool(value == other)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
