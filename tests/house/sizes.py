"""What can be counted about the tree without running a job."""

import ast
import importlib
import io
import re
import tokenize
from collections import Counter
from typing import Final

import msgspec

from tests.house.layers import SOURCE, modules

ROOT: Final = SOURCE.parent
SETTING: Final = "safety_bound"
"""A setting of a queue that is only kept, handed on and shown."""
OPTION: Final = "key_limit"
"""An option of a job. Three of the files that name it use it: what it is handed to, and the gates of each
store."""
_KINDS: Final = (BaseException, msgspec.Struct)
CODE: Final = {".py", ".sql", ".html", ".js", ".css"}


RIDDLES: Final = re.compile(r'^\s*"""(What|Whether|The same|Of|Those|So many)\b', re.MULTILINE)
"""Docstrings that do not begin with a verb, or with the noun that is meant."""
BESIDE: Final = ("contrib", "demo")
"""Folders of the package that do not count as the engine."""


def lines_of_code() -> int:
    """Lines of Python in the engine that are neither blank, nor comment, nor docstring."""
    return sum(
        _code_lines(path.read_text("utf-8"))
        for path in SOURCE.rglob("*.py")
        if not set(BESIDE) & set(path.parts)
    )


def riddles() -> list[str]:
    """The docstrings of the package that begin as riddles, as `file: first words`."""
    found = ((path, RIDDLES.findall(path.read_text("utf-8"))) for path in sorted(SOURCE.rglob("*.py")))
    return [f"{path.relative_to(SOURCE)}: {words}" for path, every in found for words in every]


def largest_folder() -> tuple[int, str]:
    """How many files of code the fullest folder of the package holds, and which it is."""
    folders = Counter(path.parent for path in SOURCE.rglob("*") if path.suffix in CODE)
    folder, files = folders.most_common(1)[0]
    return files, str(folder.relative_to(ROOT))


def files_that_name(setting: str = SETTING) -> int:
    """Files of the package that name a setting, or an option: what a new one like it would touch."""
    name = re.compile(setting.replace("_", "[_-]"))
    found = (path for path in SOURCE.rglob("*") if path.suffix in CODE | {".toml"})
    return sum(name.search(path.read_text("utf-8")) is not None for path in found)


def superclasses() -> list[tuple[int, str]]:
    """How many superclasses made in this project each class has, most first. Errors and records do not count:
    theirs are kinds of one thing. Nor do protocols: the one of a store is those of its modules together."""
    found = []
    for name in modules():
        if "django" in name or name.endswith("__main__"):  # they need a project, or run
            continue
        for each in vars(importlib.import_module(name)).values():
            ours = isinstance(each, type) and each.__module__ == name and not issubclass(each, _KINDS)
            if ours and not getattr(each, "_is_protocol", False):
                above = [base for base in each.__mro__[1:] if base.__module__.startswith("windlass")]
                found.append((len(above), f"{name}.{each.__name__}"))
    return sorted(found, reverse=True)


def _code_lines(text: str) -> int:
    prose: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        # Docstrings, and those below a name: a string that stands alone.
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            prose.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    skipped = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - prose)
