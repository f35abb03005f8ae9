"""Every public name, from the modules that export it: what it is, and what its members do.

What has no docstring cannot be told of, so the generator refuses it: see `undocumented`.
"""

import ast
import enum
import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from types import ModuleType
from typing import Any, Final

import msgspec

import windlass
from tests.docs.reference.tables import code, paragraph, sentence, table

MODULES: Final = (
    "windlass",
    "windlass.testing",
    "windlass.sets",
    "windlass.chunks",
    "windlass.codec",
    "windlass.web",
)
CONTRIB: Final = "windlass.contrib"
GROUPS: Final = {
    "The app and its tasks": ("Windlass", "Task", "Retry", "Priority", "Budget", "Cost", "Queue"),
    "Jobs": ("Job", "result_of", "results_of", "JobProgress", "StreamEvent", "Parent", "Group", "State"),
    "Inside a handler": ("Context", "current_context", "Part"),
    "What a handler may raise": ("Snooze", "Throttled", "Dead", "SourceGone", "Cancelled"),
    "Splitters": ("NDJSON", "Ranges", "Shards", "Items", "planner"),
    "Other": ("WarmPool", "WindlassError", "__version__"),
}
"""The names of `windlass`, in the order of the page."""
HANDED: Final = {
    "windlass.tasks.schedules": ("Schedules",), "windlass.handles.jobs": ("Jobs",),
    "windlass.operations.walks": ("Count",),
    "windlass.handles.queue": ("TaskSettings",),
    "windlass.chunks.task": ("ChunkedTask",), "windlass.tasks.task": ("RegisteredTask",),
    "windlass.chunks.batches": ("Batch", "AsyncBatch"), "windlass.worker.engine.embedded": ("Worker",),
    "windlass.worker.engine.run_until_idle": ("RunCounts",), "windlass.tasks.commands": ("CommandResult",),
    "windlass.handles.details": ("JobDetails", "PartOfDetails", "FailureDetails", "StepDetails",
                                 "ParentDetails", "PartDetails", "ScheduleDetails"),
    "windlass.store.records": ("BudgetRecord", "QueueRecord", "Depth", "TaskRecord"),
}  # fmt: skip
"""What nobody imports, and everybody meets: it is handed out by the names above."""
BARE: Final = ("NDJSON", "Items", "Ranges", "Shards", "Planner", "WindlassError")
"""Their members are those of a protocol, and told of there."""
FACTORIES: Final = (
    "Job",
    "Parent",
    "Task",
    "Budget",
    "Queue",
    "Context",
    "Part",
    "TestMode",
    "Windlass",
    "WindlassError",
)
"""Nobody makes these by hand, or not with all of their parameters."""
HIDDEN: Final = {
    "Windlass": {"hooks"}, "TestMode": {"producer"}, "Schedules": {"declare", "aseed", "declared"},
    "Worker": {"began", "ended", "assign", "wake", "cancel", "lose", "can_run", "running"},
    "Batch": {"transaction"},
    "WindlassDurability": {"in_durable_context", "get_default_run_id", "get_default_conversation_id",
                           "get_durable_operation_backend", "wrap_model_request", "wrap_run"},
    "RegisteredTask": {"needs", "context_type", "batch_size", "gaps", "mode", "is_async", "has_policy"},
}  # fmt: skip
"""Members that one part of Windlass has for another, or for the package that it extends."""
OWN_WORDS: Final = {"__version__": "The version of Windlass, as text."}


def written() -> str:
    """All public names, by module."""
    listed = {name for names in GROUPS.values() for name in names}
    if strange := set(windlass.__all__) ^ listed:
        raise ValueError(f"put into (or out of) a group in {__name__}: {', '.join(sorted(strange))}")
    parts = [f"## windlass: {title.lower()}\n\n{_names(windlass, names)}" for title, names in GROUPS.items()]
    for module in modules()[1:]:
        parts.append(f"## {module.__name__}\n\n{_about(module)}\n\n{_names(module, _rest(module))}")
    parts.append("## What they hand out\n\nNothing to import: methods above return these.\n")
    for path, names in HANDED.items():
        parts.append(_names(importlib.import_module(path), names))
    return "\n".join(parts)


def modules() -> list[ModuleType]:
    """The public modules: those that export something."""
    contrib = importlib.import_module(CONTRIB)
    names = sorted(each.name for each in pkgutil.iter_modules(contrib.__path__, f"{CONTRIB}."))
    return [importlib.import_module(name) for name in (*MODULES, *names)]


def exported(module: ModuleType) -> list[str]:
    """The names that a module exports: those of its `__all__`, else the functions and classes it makes."""
    made = (
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    )
    return list(getattr(module, "__all__", made))


def undocumented() -> Iterator[str]:
    """Public names and members without a word about them."""
    handed = [(importlib.import_module(path), names) for path, names in HANDED.items()]
    for module, names in [*((module, exported(module)) for module in modules()), *handed]:
        for name in names:
            value = getattr(module, name)
            if not _docstring(name, value):
                yield f"{module.__name__}.{name}"
            if inspect.isclass(value) and name not in BARE and not issubclass(value, msgspec.Struct):
                yield from (
                    f"{module.__name__}.{name}.{each}" for each, found in _members(value) if not found
                )


def _rest(module: ModuleType) -> list[str]:
    """What it exports and `windlass` does not."""
    return [name for name in exported(module) if name not in windlass.__all__]


def _about(module: ModuleType) -> str:
    return paragraph(inspect.getdoc(module) or "")


def _names(module: ModuleType, names: Any) -> str:
    return "\n".join(_entry(name, getattr(module, name)) for name in names)


def _entry(name: str, value: Any) -> str:
    lines = [f"### `{name}{_call(name, value)}`\n", f"{_docstring(name, value)}\n"]
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        lines.append(f"Its values: {', '.join(code(each.name) for each in value)}.\n")
    elif inspect.isclass(value) and issubclass(value, msgspec.Struct):
        lines.append(f"Its fields: {', '.join(code(each) for each in _fields(value))}.\n")
    elif inspect.isclass(value) and name not in BARE:
        rows = [(signature, found) for signature, found in _paired(value)]
        if rows:
            known = [base.__name__ for base in value.__bases__ if base.__name__ in windlass.__all__]
            lines += [f"Has all that `{base}` has, and:\n" for base in known]
            lines.append(table(("member", "what"), rows))
    return "\n".join(lines)


def _fields(record: type[msgspec.Struct]) -> list[str]:
    """What a record has, also what it reads on demand."""
    computed = [name for name, _ in inspect.getmembers(record, lambda each: isinstance(each, property))]
    return [name for name in (*record.__struct_fields__, *computed) if not name.startswith("_")]


def _docstring(name: str, value: Any) -> str:
    return OWN_WORDS.get(name) or paragraph(inspect.getdoc(value) or "")


def _call(name: str, value: Any) -> str:
    """The parameters, of what is called by its name."""
    is_record = inspect.isclass(value) and issubclass(value, msgspec.Struct | enum.Enum)
    is_record = is_record or typing.is_typeddict(value)
    if not callable(value) or name in FACTORIES or is_record or getattr(value, "_is_protocol", False):
        return ""
    return "" if name in _handed() else _parameters(value)


def _handed() -> set[str]:
    return {name for names in HANDED.values() for name in names}


def _parameters(function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    bare = [
        each.replace(annotation=inspect.Parameter.empty, default=_default(each.default))
        for each in signature.parameters.values()
        if each.name not in ("self", "cls")
    ]
    return str(inspect.Signature(bare))


class _Shown:
    """A default as people write it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _default(value: Any) -> Any:
    if value is inspect.Parameter.empty or isinstance(value, str | int | float | tuple | None):
        return value
    return _Shown("…")


# -- members ------------------------------------------------------------------------------------------------


def _paired(kind: type) -> Iterator[tuple[str, str]]:
    """The members with what they do; a method and its form for `await` in one row."""
    found = dict(_members(kind))
    for name, words in found.items():
        if name[:1] == "a" and name[1:] in found:
            continue
        forms = code(f"{name}{_arguments(kind, name)}")
        if (awaited := f"a{name}") in found:
            yield f"{forms}, {code(awaited)}", found[awaited] if "; see `" in words else words
        else:
            yield forms, words


def _members(kind: type) -> Iterator[tuple[str, str]]:
    """The public members that a class itself brings, or that it has of a class that is not public."""
    attributes = _attributes(kind)
    hidden = HIDDEN.get(kind.__name__, set())
    for owner in [each for each in reversed(kind.__mro__) if each is kind or each.__name__.startswith("_")]:
        for name, value in vars(owner).items():
            if name.startswith("_") or name in hidden or name in attributes or not hasattr(kind, name):
                continue  # also what is there only to say that it is not: see windlass.tasks.functions
            if isinstance(value, property | staticmethod | classmethod) or inspect.isroutine(value):
                yield name, sentence(inspect.getdoc(getattr(kind, name)) or "")
            elif isinstance(value, cached_property):
                yield name, sentence(inspect.getdoc(value.func) or "")
    yield from ((name, found) for name, found in attributes.items() if name not in hidden)


def _arguments(kind: type, name: str) -> str:
    value = inspect.getattr_static(kind, name, None)
    if value is None or isinstance(value, property) or not callable(getattr(kind, name, None)):
        return ""
    return _parameters(getattr(kind, name))


@cache
def _attributes(kind: type) -> dict[str, str]:
    """Attributes with the text behind them, from the class and from its `__init__`."""
    own = _classes(kind.__module__)[kind.__name__].body
    bodies = [own]
    bodies += [each.body for each in own if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
    found = {}
    for body in bodies:
        for statement, after in zip(body, [*body[1:], None], strict=True):
            name = _assigned(statement)
            if name is not None and not name.startswith("_") and isinstance(after, ast.Expr):
                found[name] = sentence(ast.get_docstring(ast.Module([after], [])) or "")
    return found


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    return {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}


def _assigned(statement: ast.stmt) -> str | None:
    if not isinstance(statement, ast.AnnAssign):
        return None
    if isinstance(statement.target, ast.Attribute):
        return statement.target.attr
    return statement.target.id if isinstance(statement.target, ast.Name) else None
