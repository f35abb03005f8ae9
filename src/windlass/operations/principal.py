"""Who sends a request and what they may do: the roles, and the person or program behind a request [M5]."""

from __future__ import annotations

from enum import IntEnum

import msgspec


class Role(IntEnum):
    """The rights of a principal. Each role includes those before it."""

    NOBODY = 0
    READ = 1
    OPERATE = 2


class Forbidden(Exception):
    """The request needs a higher role than its sender has."""

    def __init__(self, principal: Principal, role: Role) -> None:
        has, needed = principal.role.name.lower(), role.name.lower()
        super().__init__(f"{principal.name} has the role {has}, and this needs {needed}")
        self.role = role


class Principal(msgspec.Struct, frozen=True):
    """The sender of a request: a role, and the name that audit events carry."""

    name: str
    role: Role

    def require(self, role: Role) -> None:
        """Raise Forbidden below this role. The service does before it runs an operation."""
        if self.role < role:
            raise Forbidden(self, role)
