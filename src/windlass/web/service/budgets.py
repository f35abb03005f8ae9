"""Budgets: what each has left, and setting, draining and removing them [F1]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.core.names import check_name
from windlass.presentation import audit
from windlass.presentation.text import iso
from windlass.web.http.principal import Principal, Role
from windlass.web.http.problems import NotFound
from windlass.web.service import views
from windlass.web.service.audit import Actions
from windlass.web.service.checks import check_bounds
from windlass.web.service.shapes import BudgetView, KeyUsage


class Budgets(Actions):
    """What can be seen of budgets and done to them."""

    async def all(self, principal: Principal) -> list[BudgetView]:
        """Every budget, by name."""
        principal.require(Role.READ)
        found = await self._store.shared("budgets", 1.0, lambda store: store.budgets())
        return [views.budget_view(budget) for budget in found]

    async def usage(self, principal: Principal, name: str, limit: int = 100) -> list[KeyUsage]:
        """The keys that have used most of a budget in this period."""
        principal.require(Role.READ)
        await self._find(name)
        found = await self._store.ask(lambda store: store.usage(name, limit))
        return [KeyUsage(each.key, each.used, iso(each.until)) for each in found]

    async def set(self, principal: Principal, name: str, changes: Mapping[str, Any]) -> BudgetView:
        """Change a budget while it is in use, or create it [F1]."""
        principal.require(Role.OPERATE)
        check_name("budget", name)
        record = await self._change(
            principal, name, changes, lambda store: store.set_budget, audit.set_budget
        )
        return views.budget_view(record)

    async def drain(
        self, principal: Principal, name: str, pause: float = 0.0, key: str | None = None
    ) -> BudgetView:
        """Take all tokens away, as after a 429 of the upstream."""
        principal.require(Role.OPERATE)
        await self._find(name)
        check_bounds({"pause": pause})
        await self._do(principal, lambda store: store.drain(name, pause, key), audit.budget(name, "drained"))
        return await self._find(name)

    async def remove(self, principal: Principal, name: str) -> None:
        """Remove a budget. Jobs that need it wait until it exists again."""
        principal.require(Role.OPERATE)
        await self._find(name)
        await self._do(principal, lambda store: store.drop_budget(name), audit.budget(name, "removed"))

    async def _find(self, name: str) -> BudgetView:
        for record in await self._store.ask(lambda store: store.budgets()):
            if record.name == name:
                return views.budget_view(record)
        raise NotFound(f"there is no budget {name[:80]!r}; see the list of budgets")
