"""[W3] The text of a model goes to the job's stream as it comes."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import AgentStreamEvent, ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.tools import RunContext

from tests.stopwatch import within
from windlass import Context, Retry, Windlass
from windlass.contrib.pydantic_ai import WindlassDurability
from windlass.errors import ConfigurationError

WORDS = ("Sixteen ", "ounces ", "to ", "the ", "pound.")


def texts(events: list[Any]) -> dict[str, str]:
    """The text of each step, as a reader puts it together."""
    found: dict[str, str] = {}
    for event in events:
        found[event["step"]] = ("" if event["first"] else found[event["step"]]) + event["text"]
    return found


async def test_w3_text_is_read_while_the_model_writes(any_app: Windlass) -> None:
    """The model goes on when the reader has seen a word. A request that fails begins its text anew; one that
    is recorded says nothing again."""
    seen = asyncio.Event()
    requests = 0

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        nonlocal requests
        requests += 1
        if len(messages) == 1:
            yield "Let me see."
            yield {1: DeltaToolCall("look", "{}", tool_call_id="call_look")}
            return
        for word in WORDS:
            yield word
            async with within(20):
                await seen.wait()
            if requests == 2:
                raise OSError("the line is broken")

    durability: WindlassDurability[object] = WindlassDurability(stream=True)
    agent = Agent(FunctionModel(stream_function=answer), name="guide", capabilities=[durability])

    @agent.tool_plain
    async def look() -> str:
        return "an ounce"

    @any_app.task(retry=Retry(3, base=0))
    async def guide(ctx: Context) -> str:
        output = (await agent.run("how much?")).output
        if ctx.attempt == 2:
            raise OSError("after the agent")
        return output

    await any_app.amigrate()
    job = await guide.aenqueue()
    events: list[Any] = []
    async with any_app.worker({"default": 1}):
        async for event in job.events():
            events.append(event.value)
            if event.value["text"] == WORDS[0]:
                seen.set()
        assert await job.aresult("20s") == "".join(WORDS)
    assert texts(events) == {
        "guide: model request": "Let me see.",
        "guide: model request#2": "".join(WORDS),
    }
    assert [event["text"] for event in events] == ["Let me see.", WORDS[0], *WORDS]
    assert requests == 3


def test_w3_a_long_text_is_emitted_in_pieces(app: Windlass) -> None:
    """However JSON writes it: an event takes 64 KiB at most."""
    long = "\x01" * 20_000

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield long

    durability: WindlassDurability[object] = WindlassDurability(stream=True)
    agent = Agent(FunctionModel(stream_function=answer), name="guide", capabilities=[durability])

    @app.task
    async def guide() -> str:
        return (await agent.run("?")).output

    job = guide.enqueue()
    app.run_until_idle()
    assert job.result() == long
    assert texts([event.value for event in job.events(follow=False)]) == {"guide: model request": long}


def test_w3_events_of_a_handler_come_once(app: Windlass) -> None:
    """Those of the model in its step, those of tools in steps of their own."""
    kinds: list[str] = []

    async def handle(run: RunContext[object], events: AsyncIterable[AgentStreamEvent]) -> None:
        async for event in events:
            kinds.append(event.event_kind)

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        if len(messages) == 1:
            yield {0: DeltaToolCall("look", "{}", tool_call_id="call_look")}
        else:
            yield "done"

    durability: WindlassDurability[object] = WindlassDurability(event_stream_handler=handle)
    agent = Agent(FunctionModel(stream_function=answer), name="guide", capabilities=[durability])

    @agent.tool_plain
    async def look() -> str:
        return "an ounce"

    @app.task(retry=Retry(2, base=0))
    async def guide(ctx: Context) -> str:
        output = (await agent.run("how much?")).output
        if ctx.attempt == 1:
            kinds.append("attempt 2")
            raise OSError("after the agent")
        return output

    job = guide.enqueue()
    app.run_until_idle(wait=1)
    assert job.result() == "done"
    assert kinds[-1] == "attempt 2"
    assert kinds.count("function_tool_result") == 1


def test_w3_a_stream_has_one_handler() -> None:
    async def handle(run: RunContext[object], events: AsyncIterable[AgentStreamEvent]) -> None: ...

    with pytest.raises(ConfigurationError, match="stream=True or an event_stream_handler"):
        WindlassDurability(stream=True, event_stream_handler=handle)
