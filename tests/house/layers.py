"""Which module imports which, and which way each layer may look.

Imports under TYPE_CHECKING do not count: they name a type and run nothing. Those inside functions do.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).resolve().parent.parent.parent / "src"

LAYERS: Final = (
    {"errors"},
    {"core", "codec", "endings"},
    {"store"},
    {"settings"},
    {"running", "sets"},
    {"presentation"},
    {"operations", "handles", "tasks", "chunks"},
    {"worker", "cluster"},
    {"app", "cli", "contrib", "demo", "metrics", "testing", "web"},
)
"""From the ground up. A module may import its own layer and those below it."""

WORKER: Final = ("reports", "handlers", "engine", "processes")
"""The folders of `worker/`, from the ground up. A module may import its own folder and those below it."""

DOORS: Final = {
    "windlass.running.context -> windlass.testing.context",
    "windlass.chunks.parts -> windlass.testing.context",
}
"""`Context.for_test` and `Part.for_test` open the testing kit when they are called, and only then."""

Imports = Mapping[str, frozenset[str]]


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports() -> Imports:
    """What each module imports of the package when it runs, but for the doors."""
    known = modules()
    return {
        name: frozenset(
            each
            for each in (_resolved(each, known) for each in _imported(path) if each.startswith("windlass"))
            if f"{name} -> {each}" not in DOORS
        )
        for name, path in known.items()
    }


def layer(module: str) -> int:
    """How high a module stands; above all, the package itself, which re-exports."""
    first = module.split(".")[1] if "." in module else ""
    for height, names in enumerate(LAYERS):
        if first in names:
            return height
    return len(LAYERS)


def upward(found: Imports) -> list[str]:
    """Every import that looks up, as `module -> module`."""
    return sorted(
        f"{name} -> {each}"
        for name, targets in found.items()
        for each in targets
        if "." in each and layer(each) > layer(name)
    )


def upward_in_worker(found: Imports) -> list[str]:
    """Every import inside `worker/` that looks up, as `module -> module`."""
    heights = {f"windlass.worker.{name}": height for height, name in enumerate(WORKER)}

    def height(module: str) -> int:
        return heights.get(".".join(module.split(".")[:3]), 0)

    return sorted(
        f"{name} -> {each}"
        for name, targets in found.items()
        if name.startswith("windlass.worker.")
        for each in targets
        if each.startswith("windlass.worker.") and height(each) > height(name)
    )


def cycles(found: Imports) -> list[list[str]]:
    """The groups of modules that import each other, round about."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for each in found.get(name, ()):
            if each not in order:
                visit(each)
            if each in stack:
                low[name] = min(low[name], low[each])
        if low[name] == order[name]:
            cut = stack.index(name)
            group, stack[cut:] = stack[cut:], []
            if len(group) > 1:
                groups.append(sorted(group))

    for name in found:
        if name not in order:
            visit(name)
    return groups


def _resolved(name: str, known: Mapping[str, Path]) -> str:
    while name not in known:
        name = name.rpartition(".")[0]
    return name


def _imported(path: Path) -> Iterator[str]:
    todo: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            todo.extend(node.orelse)
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        todo.extend(ast.iter_child_nodes(node))
