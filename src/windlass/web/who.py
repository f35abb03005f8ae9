"""Who asks, and what they may do: the two roles, and the person or program behind a request [M5]."""

from __future__ import annotations

from enum import IntEnum

import msgspec


class Role(IntEnum):
    """What somebody may do; each may do what those before it may."""

    NOBODY = 0
    READ = 1
    OPERATE = 2


class Forbidden(Exception):
    """Somebody asked for more than their role allows."""

    def __init__(self, who: Who, role: Role) -> None:
        super().__init__(f"{who.name} may {who.role.name.lower()}, and this needs {role.name.lower()}")
        self.role = role


class Who(msgspec.Struct, frozen=True):
    """Somebody: the name that events of theirs carry, and their role."""

    name: str
    role: Role

    def must(self, role: Role) -> None:
        """Raise Forbidden unless they have this role. Every action of the desk begins with it."""
        if self.role < role:
            raise Forbidden(self, role)
