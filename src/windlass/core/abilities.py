"""Abilities, which some jobs need of a worker and some workers have [K14]. They are names like those of
queues.

What a job needs is kept as one text, its names sorted and with commas between them, and nothing where it
needs nothing: so it can be a part of what a lane is, and two jobs that need the same have the same text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set
from typing import Final

from windlass.core.names import check_name
from windlass.errors import InvalidName

MAX_NEEDS: Final = 8
"""Abilities that a job may need. Each set that is in use makes lanes of its own."""

NONE: Final[frozenset[str]] = frozenset()

SEND_ON: Final = 0.001
"""Seconds for which a job is put off that a worker sends on to those which have what it needs: its lane may
have to be declared."""


def read_abilities(given: object) -> frozenset[str]:
    """Names from a list of them, or from a text with commas between them. Raises InvalidName."""
    if isinstance(given, str):
        given = [name.strip() for name in given.split(",")]
    if not isinstance(given, Iterable):
        raise InvalidName(f"abilities are a list of names, such as ['gpu'], not {given!r}")
    return frozenset(check_name("ability", name) for name in given if name != "")


def needs_text(abilities: Collection[str]) -> str:
    """Return the text that is kept of these needs."""
    return ",".join(sorted(abilities))


def can_run(needs: str | None, abilities: Set[str]) -> bool:
    """Return whether a worker with these abilities may run what needs that."""
    return not needs or abilities >= set(needs.split(","))


def missing(needs: str | None, workers: Iterable[Set[str]]) -> list[str]:
    """Return the abilities no worker has; all of them if no single worker has the whole set."""
    wanted = needs.split(",") if needs else []
    have = [*workers]
    if any(set(wanted) <= each for each in have):
        return []
    return [name for name in wanted if not any(name in each for each in have)] or wanted


def in_words(names: Collection[str]) -> str:
    """`the ability gpu`, or `the abilities big-memory, gpu`."""
    return f"the {'ability' if len(names) == 1 else 'abilities'} {', '.join(sorted(names))}"


def place_name(queue: str, needs: str | None) -> str:
    """Return the name that the lanes of a queue share whose jobs need the same; see windlass.place_of."""
    return f"{queue} {needs}" if needs else queue
