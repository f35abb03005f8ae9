"""The public names of the package, with signatures and types: what users import, and what these hand out."""

import enum
import importlib
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from functools import cached_property
from types import MemberDescriptorType
from typing import Any, Final

import msgspec

from tests.docs.reference.python import FACTORIES, HANDED, HIDDEN, exported, modules

MORE: Final = ("windlass.errors", "windlass.settings", "windlass.endings")
_NOISE: Final = re.compile(r"\b(?:typing|collections\.abc|windlass[\w.]*)\.")
_EMPTY: Final = inspect.Parameter.empty


def recorded() -> dict[str, str]:
    """A file for each public module, and one for what its names hand out."""
    found = {}
    for module in (*modules(), *map(importlib.import_module, MORE)):
        names = [(name, getattr(module, name)) for name in sorted(exported(module))]
        found[module.__name__] = "\n".join(
            _entry(name, value, name not in FACTORIES) for name, value in names
        )
    handed = [
        (name, getattr(importlib.import_module(path), name))
        for path, names in HANDED.items()
        for name in names
    ]
    found["handed out"] = "\n".join(_entry(name, value, False) for name, value in sorted(handed))
    return {f"names/{name}.txt": text for name, text in found.items()}


def _entry(name: str, value: Any, makes: bool) -> str:
    """A name, and below it its members; `makes` says whether users make such a thing by hand."""
    if inspect.isclass(value):
        bases = ", ".join(each.__name__ for each in value.__bases__ if not each.__name__.startswith("_"))
        makes = makes or name == "Windlass"
        return "\n    ".join([f"class {name}({bases})", *_fields(value), *_members(value, makes)]) + "\n"
    if inspect.isroutine(value):
        return "\n".join(_signatures(name, value)) + "\n"
    return f"{name}: {type(value).__name__}\n"


def _fields(kind: type) -> Iterator[str]:
    """The values of an enum, or the fields of a record, in order."""
    if issubclass(kind, enum.Enum):
        yield from (f"{each.name} = {each.value!r}" for each in kind)
    elif issubclass(kind, msgspec.Struct):
        fields = (each for each in msgspec.structs.fields(kind) if not each.name.startswith("_"))
        yield from (f"{each.name}: {_type(each.type)}{_default(each)}" for each in fields)
    elif typing.is_typeddict(kind):
        yield from (f"{name}: {_type(of)}" for name, of in typing.get_type_hints(kind).items())


def _members(kind: type, makes: bool) -> Iterator[str]:
    """Attributes and methods of the class and of those of ours that it extends, by name."""
    if issubclass(kind, enum.Enum) or typing.is_typeddict(kind):
        return
    init: Any = inspect.getattr_static(kind, "__init__")
    given = {"__init__": init} if makes and getattr(init, "__module__", "").startswith("windlass") else {}
    fields = getattr(kind, "__struct_fields__", ())
    owners = [each for each in reversed(kind.__mro__) if each.__module__.startswith("windlass")]
    found = {
        name: value for owner in owners for name, value in vars(owner).items() if not name.startswith("_")
    }
    for name, value in sorted((given | found).items()):
        if name not in HIDDEN.get(kind.__name__, ()) and name not in fields:
            yield from _member(name, value)


def _member(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, property | cached_property):
        getter: Any = value.fget if isinstance(value, property) else value.func
        yield f"{name} -> {_type(inspect.signature(getter).return_annotation)}"
    elif isinstance(value, staticmethod | classmethod):
        yield from (f"{type(value).__name__} {each}" for each in _signatures(name, value.__func__))
    elif isinstance(value, MemberDescriptorType):
        yield f"{name}: {_type(inspect.get_annotations(value.__objclass__).get(name, 'attribute'))}"
    elif inspect.isfunction(value):
        yield from _signatures(name, value)
    else:
        yield f"{name}: {type(value).__name__}"


def _signatures(name: str, function: Callable[..., Any]) -> Iterator[str]:
    begin = "async def" if inspect.iscoroutinefunction(function) else "def"
    for each in (*typing.get_overloads(function), function):
        found = inspect.signature(each)
        parameters = [
            one.replace(annotation=_shown(one.annotation, _type), default=_shown(one.default, _value))
            for one in found.parameters.values()
        ]
        result = "" if found.return_annotation is _EMPTY else f" -> {_type(found.return_annotation)}"
        overload = "" if each is function else "overload "
        yield f"{overload}{begin} {name}{inspect.Signature(parameters)}{result}"


class _Shown:
    """A word that a signature shows as it is."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _shown(value: Any, text: Callable[[Any], str]) -> Any:
    return _EMPTY if value is _EMPTY else _Shown(text(value))


def _value(value: Any) -> str:
    """The text of a default, where a few characters can say it."""
    return repr(value) if isinstance(value, str | int | float | tuple | None) else "…"


def _type(annotation: Any) -> str:
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _NOISE.sub("", text)


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return f" = {field.default_factory.__name__}()"
    return "" if field.default is msgspec.NODEFAULT else f" = {_value(field.default)}"
