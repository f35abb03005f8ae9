"""The page of tasks: what the store says of each instead of its code, and a form to change it [P6]."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from windlass.operations.tasks import TaskView, list_tasks, set_task
from windlass.store.fields import TaskRecord, fields_of
from windlass.web.http.problems import Invalid
from windlass.web.pages import figures, settings
from windlass.web.pages.forms import go, read_form
from windlass.web.pages.rendering import principal_of, render
from windlass.web.service.service import Service


async def listing(service: Service, request: Request) -> Response:
    """Every task, and its settings."""
    found = (await service.run(principal_of(request), list_tasks)).tasks
    inputs = partial(settings.inputs, TaskRecord)
    return render(request, "tasks.html", section="tasks", tasks=found, settings=_in_words, inputs=inputs)


async def act(service: Service, request: Request) -> Response:
    """Set a task."""
    principal, name, form = principal_of(request), request.path_params["name"], await read_form(request)
    if form.text("do") != "set":
        raise Invalid("do must be set", "do")
    known = {task.name: task for task in (await service.run(principal, list_tasks)).tasks}
    changes = settings.changes(TaskRecord, known.get(name), form)
    if changes:
        await service.run(principal, set_task, name, changes)
    return go(request, "/tasks", "changed" if changes else "unchanged")


def _in_words(task: TaskView) -> str:
    """The settings that a task has in the store."""
    values = ((field, getattr(task, name)) for name, field in fields_of(TaskRecord).items())
    return ", ".join(
        f"{field.label.lower()} {figures.number(value) if field.kind is int else field.text(value)}"
        for field, value in values
        if value is not None
    )
