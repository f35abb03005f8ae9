"""Every small fault that the mutation step may plant in a module, one at a time: which, where, and the module
with it planted. Running tests against them is the business of `mutation.py`.

The faults are fixed:

| in the code | becomes |
|---|---|
| `<` `<=` `>` `>=` | the same with or without equality |
| `==` `is` `in` | `!=` `is not` `not in`, and back |
| `+ - * / // % ** << >> & \\|`, also in `+=` | `- + / * / * * >> << \\| &` |
| `and` `or`, `not x`, `-x` | `or` `and`, `x`, `x` |
| a condition, of `if`, `while` or in an expression | its opposite, unless a line above does that |
| a number, True, a text | one more, False, another text |
| `return x` | `return None` |
| `min` `any`; `break` | `max` `all`; `continue`, and back |
| a bare call, `raise` | nothing |

Left alone is what no test could or should see: types and annotations, decorators, the bases of a class,
docstrings, and the words inside `raise` and f-strings, which are for people.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

COMPARED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
EITHER_WAY: Final = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
"""Comparisons whose fault is their opposite."""
CALLED: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
HIDDEN: Final = {"annotation", "returns", "decorator_list", "bases", "type_params"}


@dataclass(frozen=True)
class Mutant:
    """One fault in one module. `place` counts the nodes of the module, `variant` the faults of the node."""

    path: Path
    place: int
    variant: int
    line: int
    body: tuple[int, int] | None
    """The lines of the function that it is in, without its head."""
    what: str


@dataclass(frozen=True)
class Site:
    """A node where faults can be planted, and where it hangs in the tree."""

    parent: ast.AST
    field: str
    index: int | None
    node: ast.AST
    body: tuple[int, int] | None


def mutants(path: Path) -> list[Mutant]:
    """All of a module's, in the order of its text."""
    return [
        Mutant(path, place, number, getattr(site.node, "lineno", 0), site.body, what)
        for place, site in enumerate(sites(ast.parse(path.read_text(encoding="utf-8"))))
        for number, (what, _) in enumerate(variants(site.node))
    ]


def planted(mutant: Mutant) -> ast.Module:
    """The module with the fault in it."""
    tree = ast.parse(mutant.path.read_text(encoding="utf-8"))
    site = list(sites(tree))[mutant.place]
    _, changed = variants(site.node)[mutant.variant]
    if site.index is None:
        setattr(site.parent, site.field, changed)
    else:
        getattr(site.parent, site.field)[site.index] = changed
    return ast.fix_missing_locations(tree)


def sites(node: ast.AST, body: tuple[int, int] | None = None) -> Iterator[Site]:
    """Every node below this one that is not left alone."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        body = (node.body[0].lineno, node.end_lineno or node.body[-1].lineno)
    for field, value in ast.iter_fields(node):
        if _is_left_alone(node, field):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST) and not _is_text(node, child):
                yield Site(node, field, index, child, body)
                yield from sites(child, body)


def _is_left_alone(node: ast.AST, field: str) -> bool:
    if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.ClassDef):
        return field != "body"
    if isinstance(node, ast.Subscript | ast.Call) and ast.unparse(_head(node)) in ("Literal", "TypeVar"):
        return True
    if isinstance(node, ast.AnnAssign) and "TypeAlias" in ast.unparse(node.annotation):
        return True
    return field in HIDDEN


def _head(node: ast.Subscript | ast.Call) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node.value


def _is_text(node: ast.AST, child: ast.AST) -> bool:
    """Whether the child is a docstring, or words between the values of an f-string."""
    if isinstance(child, ast.Expr):
        return isinstance(child.value, ast.Constant)
    return isinstance(node, ast.JoinedStr) and isinstance(child, ast.Constant)


def variants(node: ast.AST) -> list[tuple[str, ast.AST]]:
    """The faults of one node: in words, and the node that takes its place."""
    return [(f"{ast.unparse(node)} → {ast.unparse(each)}", each) for each in _variants(node)]


def _variants(node: ast.AST) -> Iterator[ast.AST]:  # noqa: PLR0912 - one case per line of the table above
    match node:
        case ast.Compare(ops=ops):
            for index, op in enumerate(ops):
                compared = copy.deepcopy(node)
                compared.ops[index] = COMPARED[type(op)]()
                yield compared
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in COMPUTED:
            computed = copy.deepcopy(node)
            computed.op = COMPUTED[type(op)]()
            yield computed
        case ast.BoolOp(op=op):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.If() | ast.While() | ast.IfExp() if not _turns_by_itself(node.test):
            turned = copy.deepcopy(node)
            turned.test = ast.UnaryOp(ast.Not(), turned.test)
            yield turned
        case ast.comprehension(ifs=[*tests]):
            for index, test in enumerate(tests):
                if not _turns_by_itself(test):
                    sifted = copy.deepcopy(node)
                    sifted.ifs[index] = ast.UnaryOp(ast.Not(), test)
                    yield sifted
        case ast.Constant(value=value):
            yield from _other(value)
        case ast.Return(value=ast.expr() as value) if not _is_none(value):
            yield ast.Return(ast.Constant(None))
        case ast.Name(id=name) if name in CALLED:
            yield ast.Name(CALLED[name], ast.Load())
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise():
            yield ast.Pass()


def _turns_by_itself(test: ast.expr) -> bool:
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not)
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], EITHER_WAY)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _other(value: object) -> Iterator[ast.Constant]:
    match value:
        case bool():
            yield ast.Constant(not value)
        case int() | float():
            yield ast.Constant(value + 1)
        case str():
            yield ast.Constant(f"other {value}")
