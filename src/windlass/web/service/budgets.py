"""Budgets: what each has left, and setting, draining and removing them [F1]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.core.names import check_name
from windlass.presentation import audit
from windlass.presentation.text import one_line
from windlass.web.http.principal import Principal, Role
from windlass.web.http.problems import Invalid, NotFound
from windlass.web.service import views
from windlass.web.service.audit import Audit
from windlass.web.service.checks import check_bounds
from windlass.web.service.shapes import BudgetView
from windlass.web.service.store_access import StoreAccess


class Budgets:
    """What can be seen of budgets and done to them."""

    def __init__(self, store: StoreAccess, audit: Audit) -> None:
        self._store = store
        self._audit = audit

    async def all(self, principal: Principal) -> list[BudgetView]:
        """Every budget, by name."""
        principal.require(Role.READ)
        found = await self._store.shared("budgets", 1.0, lambda store: store.budgets())
        return [views.budget_view(budget) for budget in found]

    async def set(self, principal: Principal, name: str, changes: Mapping[str, Any]) -> BudgetView:
        """Change a budget while it is in use, or create it [F1]."""
        principal.require(Role.OPERATE)
        check_name("budget", name)
        check_bounds(changes)
        try:
            record = await self._store.ask(lambda store: store.set_budget(name, changes))
        except ValueError as error:
            raise Invalid(one_line(str(error))) from error
        await self._audit.done(principal, audit.set_budget(name, changes))
        return views.budget_view(record)

    async def drain(
        self, principal: Principal, name: str, pause: float = 0.0, key: str | None = None
    ) -> BudgetView:
        """Take all tokens away, as after a 429 of the upstream."""
        principal.require(Role.OPERATE)
        await self._find(name)
        check_bounds({"pause": pause})
        await self._store.ask(lambda store: store.drain(name, pause, key))
        await self._audit.done(principal, audit.budget(name, "drained"))
        return await self._find(name)

    async def remove(self, principal: Principal, name: str) -> None:
        """Remove a budget. Jobs that need it wait until it exists again."""
        principal.require(Role.OPERATE)
        await self._find(name)
        await self._store.ask(lambda store: store.drop_budget(name))
        await self._audit.done(principal, audit.budget(name, "removed"))

    async def _find(self, name: str) -> BudgetView:
        for record in await self._store.ask(lambda store: store.budgets()):
            if record.name == name:
                return views.budget_view(record)
        raise NotFound(f"there is no budget {name[:80]!r}; see the list of budgets")
