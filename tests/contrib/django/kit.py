"""Tasks for these tests."""

from importlib import import_module
from typing import Any

from django.db import connection

from windlass.contrib.django.api import FRAMEWORK
from windlass.endings import Dead

task: Any = import_module(FRAMEWORK).task
seen: list[Any] = []
"""What tasks leave for their tests to look at."""


@task
def add(a: int, b: int = 1) -> int:
    return a + b


@task(queue_name="mail", max_attempts=2)
def fail(word: str) -> None:
    raise ValueError(word)


@task
def give_up() -> None:
    raise Dead("nothing can be done")


@task(takes_context=True)
def attempt(context: Any, word: str) -> list[Any]:
    return [word, context.attempt, context.task_result.id, str(context.task_result.status)]


@task(takes_context=True)
def look(context: Any) -> list[Any]:
    """Return what others see of this very job."""
    found = look.get_result(context.task_result.id)
    return [str(found.status), found.is_finished, found.attempts]


@task
async def aadd(a: int, b: int) -> int:
    return a + b


@task
def query() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 41 + 1")
        seen.append(connection.connection)
        return int(cursor.fetchone()[0])


@task
def CamelCase() -> str:
    return "done"


@task
def leave() -> None:
    raise SystemExit(1)


@task
def return_function() -> Any:
    return leave
