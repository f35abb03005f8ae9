"""The page of budgets."""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from windlass.operations.budgets import MAX_PAUSE, drain_budget, list_budgets, list_usage, set_budget
from windlass.store.fields import NewBudget
from windlass.web.http.problems import Invalid
from windlass.web.pages import settings
from windlass.web.pages.forms import go, read_form
from windlass.web.pages.rendering import principal_of, render
from windlass.web.service.service import Service

TOP: Final = 10
"""Keys shown of a budget, those that used most."""

MAX_DIVIDED: Final = 20
"""Budgets of which keys are shown."""


async def listing(service: Service, request: Request) -> Response:
    """Every budget, and what it has left."""
    principal = principal_of(request)
    found = (await service.run(principal, list_budgets)).budgets
    divided = [each.name for each in found if each.key][:MAX_DIVIDED]
    keys = {name: (await service.run(principal, list_usage, name, TOP)).keys for name in divided}
    inputs = partial(settings.inputs, NewBudget)
    return render(request, "budgets.html", section="budgets", budgets=found, inputs=inputs, keys=keys)


async def act(service: Service, request: Request) -> Response:
    """Set or drain a budget."""
    principal, name, form = principal_of(request), request.path_params["name"], await read_form(request)
    match form.text("do"):
        case "set":
            known = (await service.run(principal, list_budgets)).budgets
            now = next((each for each in known if each.name == name), None)
            changes = settings.changes(NewBudget, now, form)
            if changes:
                await service.run(principal, set_budget, name, changes)
            return go(request, "/budgets", "changed" if changes else "unchanged")
        case "drain":
            await service.run(principal, drain_budget, name, form.decimal("pause", MAX_PAUSE) or 0.0)
            return go(request, "/budgets", "drained")
    raise Invalid("do must be set or drain", "do")
