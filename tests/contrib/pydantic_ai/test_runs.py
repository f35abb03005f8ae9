"""[W1] [W2] Runs of agents beside, after and inside of each other; sleeps and waits; where no step can be."""

import asyncio
import subprocess
import sys

import pytest
from pydantic_ai import Agent, ToolDenied
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.exceptions import UserError
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, RunContext
from pydantic_ai.toolsets import DynamicToolset, FunctionToolset

from tests.contrib.pydantic_ai.conftest import Script, call, step_names
from windlass import Context, Retry, Windlass, current_context
from windlass.contrib.pydantic_ai import StepOptions, WindlassDurability
from windlass.errors import ConfigurationError


def test_w1_runs_side_by_side_have_names_of_their_own(app: Windlass, script: Script) -> None:
    """Though chance decides which of them begins: here the second attempt turns them round."""
    agent = Agent(script.model([call("weather")], "sunny"), name="guide", capabilities=[WindlassDurability()])
    cities = ["Oslo", "Rome"]

    @agent.tool
    async def weather(run: RunContext[object]) -> str:
        script.ran[f"{run.run_id}"] += 1
        return f"{run.prompt}"

    @app.task(retry=Retry(2, base=0))
    async def guide(ctx: Context) -> list[str]:
        cities.reverse()
        results = await asyncio.gather(*(agent.run(city, run_id=f"{ctx.id} {city}") for city in cities))
        if ctx.attempt == 1:
            raise OSError("after the agents")
        return [str(result.all_messages()[2].parts[0].content) for result in results]  # type: ignore[union-attr]

    job = guide.enqueue()
    app.run_until_idle(wait=1)
    assert job.result() == cities
    assert script.ran == {f"{job.id} Oslo": 1, f"{job.id} Rome": 1, "request 1": 2, "request 2": 2}


def test_w1_an_agent_that_goes_on_is_given_what_it_was_told(app: Windlass, script: Script) -> None:
    """One run after the other, with the messages of the first, over a sleep."""
    agent = Agent(script.model("hello", "goodbye"), name="host", capabilities=[WindlassDurability()])

    @app.task
    async def host(ctx: Context) -> list[str]:
        first = await agent.run("come")
        await ctx.sleep("1.1s")
        second = await agent.run("go", message_history=first.all_messages())
        return [first.output, second.output]

    job = host.enqueue()
    app.run_until_idle(wait=3)
    assert job.result() == ["hello", "goodbye"]
    assert script.ran == {"request 1": 1, "request 2": 1}
    assert step_names(job) == ["host 2: model request", "host: model request", "sleep"]


def test_w1_an_agent_in_a_tool_is_kept_by_the_tools_step(app: Windlass, script: Script) -> None:
    """Unless the tool has steps of its own: then its agent does."""
    helper = Agent(script.model("helped"), name="helper", capabilities=[WindlassDurability()])
    boss = Agent(
        script.model([call("inside"), call("apart")], "done", name="boss"),
        name="boss",
        capabilities=[WindlassDurability()],
    )

    @boss.tool_plain
    async def inside() -> str:
        return (await helper.run("help")).output

    @boss.tool_plain(metadata={"windlass": False})
    async def apart() -> str:
        return (await helper.run("help")).output

    @app.task(retry=Retry(2, base=0))
    async def work(ctx: Context) -> str:
        output = (await boss.run("work")).output
        if ctx.attempt == 1:
            raise OSError("after the agents")
        return output

    job = work.enqueue()
    app.run_until_idle(wait=1)
    assert job.result() == "done"
    assert step_names(job) == [
        "boss: model request", "boss: model request#2", "boss: tool inside call_inside",
        "helper: model request",
    ]  # fmt: skip
    assert script.ran == {"request 1": 3, "request 2": 1}


@pytest.mark.parametrize("ok", [True, False])
def test_w2_a_human_approves_a_call(any_app: Windlass, script: Script, ok: bool) -> None:
    """The job holds nothing while it waits, and asks the model nothing again."""

    async def ask(run: RunContext[object], requests: DeferredToolRequests) -> DeferredToolResults:
        answers: dict[str, bool | ToolDenied] = {}
        for each in requests.approvals:
            said = await current_context().wait(f"approve {each.tool_call_id}", timeout="7d", type=bool)
            answers[each.tool_call_id] = said or ToolDenied("the human said no")
        return requests.build_results(approvals=answers)

    agent = Agent(
        script.model([call("look"), call("drop", table="users")], "over"),
        name="admin",
        capabilities=[WindlassDurability(), HandleDeferredToolCalls(ask)],
    )

    @agent.tool_plain
    async def look() -> str:
        script.ran["look"] += 1
        return "a table"

    @agent.tool_plain(requires_approval=True)
    async def drop(table: str) -> str:
        script.ran[f"drop {table}"] += 1
        return "dropped"

    @any_app.task
    async def admin() -> str:
        return (await agent.run("tidy up")).output

    job = admin.enqueue()
    any_app.run_until_idle(wait=1)
    assert job.status() == "scheduled"
    assert any_app.signal(job, "approve call_drop", ok) == "delivered"
    any_app.run_until_idle(wait=1)
    assert job.result() == "over"
    assert script.ran == {"request 1": 1, "request 2": 1, "look": 1} | ({"drop users": 1} if ok else {})


def test_w2_a_tool_waits(app: Windlass, script: Script) -> None:
    """One that runs beside it comes to its end first, and is not called again."""
    agent = Agent(
        script.model([call("ask"), call("look")], "over"), name="a", capabilities=[WindlassDurability()]
    )

    asked = asyncio.Event()

    @agent.tool_plain(metadata={"windlass": False})
    async def ask() -> int:
        asked.set()
        return int(await current_context().wait("answer", type=int))

    @agent.tool_plain
    async def look() -> None:
        script.ran["look"] += 1
        await asked.wait()
        for _ in range(100):  # turns of the loop, in which the wait begins
            await asyncio.sleep(0)
        script.ran["looked"] += 1

    @app.task
    async def work() -> str:
        return (await agent.run("ask")).output

    job = work.enqueue()
    app.run_until_idle()
    assert app.signal(job, "answer", 42) == "delivered"
    app.run_until_idle()
    assert job.result() == "over"
    assert script.ran == {"request 1": 1, "request 2": 1, "look": 1, "looked": 1}


def test_w1_a_dynamic_toolset_offers_what_it_did(app: Windlass, script: Script) -> None:
    """What it offers is a step, too, and so are its calls."""

    def offer(run: RunContext[object]) -> FunctionToolset[object]:
        script.ran["offer"] += 1
        tools: FunctionToolset[object] = FunctionToolset()
        tools.add_function(find)
        return tools

    async def find(n: int) -> int:
        script.ran["find"] += 1
        return n

    agent = Agent(
        script.model([call("find", n=7)], "over"),
        name="a",
        toolsets=[DynamicToolset(offer, id="late")],
        capabilities=[WindlassDurability()],
    )

    @app.task(retry=Retry(2, base=0))
    async def work(ctx: Context) -> str:
        output = (await agent.run("find")).output
        if ctx.attempt == 1:
            script.ran["offers of the first attempt"] = script.ran["offer"]
            raise OSError("after the agent")
        return output

    job = work.enqueue()
    app.run_until_idle(wait=1)
    assert job.result() == "over"
    assert script.ran["find"] == 1
    assert script.ran["offer"] == script.ran["offers of the first attempt"]
    assert {"a: tools of late", "a: tool find call_find"} < set(step_names(job))


def test_w1_a_tool_is_tried_again_within_its_step(app: Windlass, script: Script) -> None:
    """As the capability says for all, or the tool's metadata for one."""
    tools = StepOptions(retry=Retry(3, base=0))
    durability: WindlassDurability[object] = WindlassDurability(tools=tools)
    agent = Agent(script.model([call("find"), call("once")], "over"), name="a", capabilities=[durability])

    @agent.tool_plain
    async def find() -> None:
        script.ran["find"] += 1
        if script.ran["find"] < 3:
            raise OSError("not yet")

    @agent.tool_plain(metadata={"windlass": {"retry": None, "timeout": "5s"}})
    async def once() -> None:
        script.ran["once"] += 1

    @app.task(retry=Retry(1))
    async def work() -> str:
        return (await agent.run("find")).output

    job = work.enqueue()
    app.run_until_idle()
    assert job.result() == "over"
    assert script.ran == {"request 1": 1, "request 2": 1, "find": 3, "once": 1}


def failure(app: Windlass, agent: Agent[object, str], **options: object) -> str:
    """Why a job of this agent fails."""

    @app.task(retry=Retry(1))
    async def work() -> str:
        return (await agent.run("go", **options)).output  # type: ignore[call-overload,no-any-return]

    job = work.enqueue()
    app.run_until_idle()
    assert job.status() == "dead"
    return job.record().errors[-1].message


def test_w1_what_cannot_be_kept_is_refused(app: Windlass, script: Script) -> None:
    """Metadata that says nothing, and toolsets and models that come with a run."""
    agent = Agent(script.model([call("find")], "over"), name="a", capabilities=[WindlassDurability()])

    @agent.tool_plain(metadata={"windlass": {"retries": 3}})
    async def find() -> None: ...

    with pytest.raises(UserError, match="unique `name`"):
        Agent(TestModel(), capabilities=[WindlassDurability()])
    assert "its metadata 'windlass' is False or a dict of retry and timeout" in failure(app, agent)


def test_w1_toolsets_of_a_run_are_refused(app: Windlass) -> None:
    agent = Agent(TestModel(), name="a", capabilities=[WindlassDurability()])
    assert "toolset" in failure(app, agent, toolsets=[FunctionToolset(id="late")])


def test_w1_models_of_a_run_are_registered(app: Windlass) -> None:
    agent = Agent(TestModel(), name="a", capabilities=[WindlassDurability()])
    assert "was not registered" in failure(app, agent, model=TestModel())


def test_w1_a_plain_handler_is_told_to_be_async(app: Windlass) -> None:
    agent = Agent(TestModel(), name="a", capabilities=[WindlassDurability()])

    @app.task(retry=Retry(1))
    def work() -> str:
        return asyncio.run(agent.run("go")).output

    job = work.enqueue()
    app.run_until_idle()
    said = job.record().errors[-1].message  # it has awaited no ctx.step of its own
    assert "agent 'a' was run by a plain handler" in said
    assert "`await agent.run(…)` in place of run_sync()" in said


async def test_w1_outside_of_a_job_it_is_an_ordinary_agent(script: Script) -> None:
    agent = Agent(TestModel(), name="a", capabilities=[WindlassDurability(stream=True, budget="openai")])

    @agent.tool_plain
    async def find() -> None:
        script.ran["find"] += 1

    first, second = await agent.run("go"), await agent.run("go")
    assert first.output == second.output
    assert first.run_id != second.run_id
    assert script.ran == {"find": 2}


def test_w1_the_package_is_imported_by_its_users_only() -> None:
    code = "import sys, windlass, windlass.worker, windlass.contrib; assert 'pydantic_ai' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_w1_without_the_package_the_extra_is_named() -> None:
    code = "import sys; sys.modules['pydantic_ai'] = None; import windlass.contrib.pydantic_ai"
    run = subprocess.run(
        [sys.executable, "-c", code], check=False, timeout=60, capture_output=True, text=True
    )
    assert ConfigurationError.__name__ in run.stderr
    assert "pip install 'windlass[pydantic-ai]'" in run.stderr
