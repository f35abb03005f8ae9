"""Every command, from its own help: what it does, its arguments and its options."""

import inspect
import re
from collections.abc import Iterator
from typing import Final

import click

from tests.docs.reference.tables import code, table
from windlass.cli import VERBS, main

GROUPS: Final = {
    "Working": ("worker", "enqueue", "reconcile"),
    "Looking": ("top", "queues", "workers", "jobs", "waits", "parents", "tasks", "budgets", "gates",
                "watermarks", "events", "doctor", "web"),
    "ClusterView": ("queue", "job", "dead", "parent", "group", "task", "budget", "schedules"),
    "The store": ("migrate", "sql", "maintain", "backup", "copy"),
    "Trying": ("demo",),
}  # fmt: skip
"""In the order of the page: what people do first comes first."""
SHARED: Final = ("--database", "--schema", "--app", "--json")
"""Options that most commands have: they are told of once."""
_VARIABLE: Final = re.compile(r"\bWINDLASS_[A-Z_]+\b")
_DEFAULT: Final = re.compile(r"\s*\[([^\]]+)\]\.?$")


def written() -> str:
    """The page's commands, by group."""
    grouped = {name for names in GROUPS.values() for name in names}
    if strange := {name for name, (_, line) in VERBS.items() if line} ^ grouped:
        raise ValueError(f"put into (or out of) a group in {__name__}: {', '.join(sorted(strange))}")
    parts = []
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n")
        for name in names:
            parts += [_section(path, command) for path, command in _commands(main, name, name)]
    return "\n".join(parts)


def _commands(group: click.Group, name: str, path: str) -> Iterator[tuple[str, click.Command]]:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    if isinstance(command, click.Group):
        for each in command.list_commands(click.Context(command)):
            yield from _commands(command, each, f"{path} {each}")
    else:
        yield path, command


def _section(path: str, command: click.Command) -> str:
    arguments = [_argument(each) for each in command.params if isinstance(each, click.Argument)]
    options = [each for each in command.params if isinstance(each, click.Option)]
    own = [each for each in options if each.opts[0] not in SHARED]
    shared = [code(word) for word in SHARED if word in {each.opts[0] for each in options}]
    lines = [f"### windlass {path}\n"]
    if arguments:
        lines.append(f"`windlass {path} {' '.join(arguments)}`\n")
    lines.append(_help(command))
    if own:
        lines.append(table(("option", "default", "what"), [_row(each) for each in own]))
    if shared:
        lines.append(f"{'And' if own else 'Takes'} {', '.join(shared)}.\n")
    return "\n".join(lines)


def _argument(argument: click.Argument) -> str:
    name = argument.make_metavar(click.Context(main))
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _help(command: click.Command) -> str:
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs) + "\n"


def _row(option: click.Option) -> tuple[str, str, str]:
    words = [code(word) for word in (*option.opts, *option.secondary_opts)]
    if not option.is_flag:
        words[-1] = f"{words[-1][:-1]} {_metavar(option)}`"
    message = option.help or ""
    found = _DEFAULT.search(message)
    default = found[1] if found else _own_default(option)
    text = _DEFAULT.sub("", message)
    if option.required:
        default = "required"
    return ", ".join(words), _VARIABLE.sub(r"`\g<0>`", default), text


def _metavar(option: click.Option) -> str:
    if option.metavar is None and isinstance(option.type, click.Choice):
        return "|".join(str(choice) for choice in option.type.choices)
    return option.metavar or option.type.name.upper().removesuffix(" RANGE").replace("INTEGER", "N")


def _own_default(option: click.Option) -> str:
    default = option.to_info_dict()["default"]
    if callable(default) or default in (None, False, True, (), "") or "UNSET" in str(default).upper():
        return ""
    return str(default)
