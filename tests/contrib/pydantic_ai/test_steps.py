"""[W1] What an agent has been answered is kept: its model requests and tool calls are steps."""

from dataclasses import dataclass

from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.capabilities import ModelFallback
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.run import AgentRunResult

from tests.chaos.kit import until
from tests.contrib.pydantic_ai.conftest import Script, call, step_names
from windlass import Context, Retry, Windlass
from windlass.contrib.pydantic_ai import WindlassDurability

TWICE = Retry(2, base=0)
KEY = object()


@dataclass
class City:
    """What an agent is asked for."""

    name: str
    people: int


def returned(result: AgentRunResult[object]) -> dict[str, object]:
    """What each call of a tool returned, as the model was told."""
    parts = [part for message in result.all_messages() for part in message.parts]
    return {part.tool_call_id: part.content for part in parts if isinstance(part, ToolReturnPart)}


def test_w1_a_later_attempt_pays_for_nothing_again(any_app: Windlass, script: Script) -> None:
    """Neither for an answer of the model nor for a tool, after failures of the handler and of a tool."""
    agent = Agent(
        script.model([call("search", q="geese")], [call("read", page=7)], "geese fly"),
        name="research",
        capabilities=[WindlassDurability()],
    )

    @agent.tool_plain
    async def search(q: str) -> list[str]:
        script.ran["search"] += 1
        return [q, "ganders"]

    @agent.tool_plain
    def read(page: int) -> str:
        script.ran["read"] += 1
        if script.ran["read"] == 1:
            raise OSError("no such page yet")
        return f"page {page}"

    @any_app.task(retry=Retry(4, base=0))
    async def research(ctx: Context, topic: str) -> str:
        result = await agent.run(topic)
        assert returned(result) == {"call_search": ["geese", "ganders"], "call_read": "page 7"}
        assert result.usage.requests == 3
        if ctx.attempt < 4:
            raise OSError("after the agent")
        return result.output

    job = research.enqueue("geese")
    any_app.run_until_idle(wait=1)
    assert job.result() == "geese fly"
    assert script.ran == {"request 1": 1, "request 2": 1, "request 3": 1, "search": 1, "read": 2}
    assert step_names(job) == [
        "research: model request", "research: model request#2", "research: model request#3",
        "research: tool read call_read", "research: tool search call_search",
    ]  # fmt: skip


def test_w1_a_typed_output_is_the_same_in_every_attempt(app: Windlass) -> None:
    agent = Agent(TestModel(), name="cities", output_type=City, capabilities=[WindlassDurability()])
    outputs: list[City] = []

    @app.task(retry=TWICE)
    async def city(ctx: Context) -> City:
        outputs.append((await agent.run("Which?")).output)
        if ctx.attempt == 1:
            raise OSError("after the agent")
        return outputs[-1]

    job = city.enqueue()
    app.run_until_idle(wait=1)
    assert job.result() == outputs[0] == outputs[1]
    assert isinstance(outputs[1], City)


def test_w1_parallel_calls_are_told_apart_however_they_begin(app: Windlass, script: Script) -> None:
    """The one that failed is called again, and each call has its own result, though all are alike but for
    their ids."""
    calls = [call("look", id=f"call_{n}", n=0) for n in range(3)]
    agent = Agent(script.model(calls, "done"), name="research", capabilities=[WindlassDurability()])

    @agent.tool
    async def look(run: RunContext[object], n: int) -> str | None:
        script.ran[f"{run.tool_call_id}"] += 1
        if run.tool_call_id == "call_0" and script.ran["call_0"] == 1:
            await until(others_are_kept, 20)
            raise OSError("the first of them, when the others have ended")
        return run.tool_call_id

    async def others_are_kept() -> bool:
        return len(await app._store_handle().acall(lambda store: store.steps(job.id))) == 3

    @app.task(retry=TWICE)
    async def research() -> str:
        result = await agent.run("look")
        assert returned(result) == {each.tool_call_id: each.tool_call_id for each in calls}
        return result.output

    job = research.enqueue()
    app.run_until_idle(wait=1)
    assert job.result() == "done"
    assert script.ran == {"request 1": 1, "request 2": 1, "call_0": 2, "call_1": 1, "call_2": 1}


def test_w1_ids_may_be_long_and_odd(app: Windlass, script: Script) -> None:
    ids = [f"call#{'x' * 300}{n}" for n in range(2)]
    agent = Agent(
        script.model([call("look", id=id) for id in ids], "done"),
        name="a",
        capabilities=[WindlassDurability()],
    )

    @agent.tool
    async def look(run: RunContext[object]) -> str | None:
        return run.tool_call_id

    @app.task(retry=TWICE)
    async def work(ctx: Context) -> None:
        assert returned(await agent.run("look")) == {id: id for id in ids}
        if ctx.attempt == 1:
            raise OSError("after the agent")

    job = work.enqueue()
    app.run_until_idle(wait=1)
    assert job.status() == "succeeded"
    assert len(step_names(job)) == 4


def test_w1_what_a_tool_tells_the_model_is_kept_and_what_fails_is_not(app: Windlass, script: Script) -> None:
    """ModelRetry is an answer; so is a refusal of the arguments, which calls no tool."""
    agent = Agent(
        script.model([call("find", "a", n=1)], [call("find", "b", n="x")], [call("find", "c", n=3)], "found"),
        name="research",
        retries=3,
        capabilities=[WindlassDurability()],
    )

    @agent.tool_plain
    async def find(n: int) -> int:
        script.ran[f"find {n}"] += 1
        if n == 1:
            raise ModelRetry("try another")
        return n

    @app.task(retry=TWICE)
    async def research(ctx: Context) -> str:
        result = await agent.run("find")
        told = returned(result)
        assert (told["a"], told["c"]) == ("try another", 3)
        assert "valid integer" in str(told["b"])
        if ctx.attempt == 1:
            raise OSError("after the agent")
        return result.output

    job = research.enqueue()
    app.run_until_idle(wait=1)
    assert job.result() == "found"
    assert script.ran == {"find 1": 1, "find 3": 1} | {f"request {n}": 1 for n in range(1, 5)}


def test_w1_a_request_that_failed_is_made_again(app: Windlass, script: Script) -> None:
    """By another model, where a deploy has changed it. What the first was paid for stays."""
    failing = ModelHTTPError(529, "script")
    working = script.model([call("find")], "found")
    broken = script.model([call("find")], failing)
    agent = Agent(broken, name="research", capabilities=[WindlassDurability(models={"working": working})])

    @agent.tool_plain
    async def find() -> int:
        script.ran["find"] += 1
        return 1

    @app.task(retry=TWICE)
    async def research(ctx: Context) -> str:
        return (await agent.run("find", model="working" if ctx.attempt == 2 else None)).output

    job = research.enqueue()
    app.run_until_idle(wait=1)
    assert job.result() == "found"
    assert script.ran == {"request 1": 1, "request 2": 2, "find": 1}


def test_w1_a_row_of_another_request_is_passed_over(app: Windlass, script: Script) -> None:
    """The model failed in the first attempt and another stepped in; in the second it works, and leads
    elsewhere. No request is given an answer to what the other model had said, and no call the result of
    another with its id."""
    broken = True

    def first(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if broken:
            raise ModelHTTPError(503, "first")
        asked = len(messages) > 1
        return ModelResponse([TextPart("first, in the end") if asked else call("find", n=1)])

    second = script.model([call("find", n=2)], "second, in the end", name="second")
    durability: WindlassDurability[object] = WindlassDurability(models={"second": second})
    agent = Agent(
        FunctionModel(first, model_name="first"),
        name="research",
        capabilities=[durability, ModelFallback("second")],
    )

    @agent.tool_plain
    async def find(n: int) -> int:
        return n

    outputs: list[tuple[object, ...]] = []

    @app.task(retry=Retry(3, base=0))
    async def research(ctx: Context) -> None:
        nonlocal broken
        broken = ctx.attempt != 2
        result = await agent.run("find")
        outputs.append((result.output, *returned(result).values()))
        raise OSError("after the agent")

    research.enqueue()
    app.run_until_idle(wait=1)
    assert outputs[:2] == [("second, in the end", 2), ("first, in the end", 1)]
    assert outputs[2] in outputs[:2]


def test_w1_an_agent_that_gave_up_on_the_model_gives_up_again(app: Windlass, script: Script) -> None:
    """What the model got wrong is kept: each attempt ends alike, and pays for nothing."""
    agent = Agent(
        script.model("no city", "nor this"),
        name="cities",
        output_type=City,
        capabilities=[WindlassDurability()],
    )

    @app.task(retry=Retry(3, base=0))
    async def city() -> City:
        return (await agent.run("Which?", retries=1)).output

    job = city.enqueue()
    app.run_until_idle(wait=1)
    record = job.record()
    assert (record.state, record.attempt) == ("dead", 3)
    assert {error.type for error in record.errors} == {"pydantic_ai.exceptions.UnexpectedModelBehavior"}
    assert script.ran == {"request 1": 1, "request 2": 1}


def test_w1_dependencies_are_the_runs_own(app: Windlass, script: Script) -> None:
    """They reach the tools as they are, and no row."""
    agent = Agent(
        script.model([call("read")], [call("write", text="x")], "done"),
        name="clerk",
        deps_type=dict[str, object],
        capabilities=[WindlassDurability()],
    )

    @agent.tool
    async def read(run: RunContext[dict[str, object]]) -> str:
        return "first"

    @agent.tool
    async def write(run: RunContext[dict[str, object]], text: str) -> None:
        assert run.deps["key"] is KEY
        if run.deps["attempt"] == 1:
            raise OSError("not yet")

    @app.task(retry=TWICE)
    async def clerk(ctx: Context) -> str:
        return (await agent.run("go", deps={"key": KEY, "attempt": ctx.attempt})).output

    job = clerk.enqueue()
    app.run_until_idle(wait=1)
    assert job.result() == "done"
