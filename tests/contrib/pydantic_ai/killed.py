"""An agent in a worker that kills itself once for each job, at the point that the job is told: "model request
before", "tool look call_look ends" (the function has returned, its row is not written) or "… after"."""

import os
import signal
from pathlib import Path
from typing import Any, Final

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.chaos.workers.jobs import LEDGER, QUEUE, Run
from windlass import Context, Retry, Windlass, current_context
from windlass.contrib.pydantic_ai import WindlassDurability

app = Windlass()
STEPS: Final = ("guide: model request", "guide: tool look call_look", "guide: model request#2")
kills: Final[dict[int, str]] = {}
_step: Final[Any] = Context.step


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A call of the tool, then text."""
    first = len(messages) == 1
    Run(current_context()).effect(STEPS[0 if first else 2])
    return ModelResponse([ToolCallPart("look", {}, "call_look") if first else TextPart("I have looked")])


agent = Agent(FunctionModel(answer), name="guide", capabilities=[WindlassDurability()])


@agent.tool_plain
async def look() -> str:
    """Written down like a request."""
    Run(current_context()).effect(STEPS[1])
    return "seen"


@app.task(name="guide", queue=QUEUE, retry=Retry(1))
async def guide(ctx: Context, kill: str) -> str:
    """Asks the agent, and dies once."""
    kills[ctx.id] = kill
    return (await agent.run("look")).output


async def step(ctx: Context, name: str, function: Any, /, *args: Any, **options: Any) -> Any:
    """Context.step with kills around it."""
    mark = Path(f"{os.environ[LEDGER]}.{ctx.id}")
    used = ctx._durable._used.get(name, 0) + 1
    numbered = name if used == 1 else f"{name}#{used}"

    def at(when: str) -> None:
        if kills[ctx.id] == f"{numbered} {when}" and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    async def watched(*args: Any) -> Any:
        value = await function(*args)
        at("ends")
        return value

    watched.__module__, watched.__qualname__ = function.__module__, function.__qualname__
    at("before")
    value = await _step(ctx, name, watched, *args, **options)
    at("after")
    return value


Context.step = step  # type: ignore[method-assign, assignment]
