"""Apps on each kind of store, real workers for the kills, and models that count what they are asked."""

from collections import Counter
from typing import Any

import pytest
from pydantic_ai import models
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.apps import any_app, app, no_settings_from_outside, url
from tests.chaos.workers.conftest import pg_scene, scene, sqlite_scene
from tests.worker.scene import often
from windlass import Job

__all__ = ["any_app", "app", "no_settings_from_outside", "often", "pg_scene", "scene", "sqlite_scene", "url"]

models.ALLOW_MODEL_REQUESTS = False


class Script:
    """A model that answers from a list, by how many responses it has given in the conversation; and what was
    called, how often."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()

    def model(self, *answers: str | list[ToolCallPart] | Exception, name: str = "script") -> FunctionModel:
        """Each answer is text, calls of tools, or an error."""

        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            given = sum(isinstance(message, ModelResponse) for message in messages)
            self.ran[f"request {given + 1}"] += 1
            found = answers[given]
            if isinstance(found, Exception):
                raise found
            return ModelResponse([TextPart(found)] if isinstance(found, str) else list(found))

        return FunctionModel(answer, model_name=name)


@pytest.fixture
def script() -> Script:
    return Script()


def call(tool: str, id: str | None = None, **arguments: Any) -> ToolCallPart:
    """A call of a tool, as a model makes it."""
    return ToolCallPart(tool, arguments, id or f"call_{tool}")


def step_names(job: Job[Any]) -> list[str]:
    """The steps of a job."""
    return sorted(step.name for step in job._store_handle().call(lambda store: store.steps(job.id)))
