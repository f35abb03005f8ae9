"""[F1] A budget is told the tokens of the requests that a run of the job has paid for."""

import pytest
from pydantic_ai import Agent, RequestUsage
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.contrib.pydantic_ai.conftest import call
from windlass import Context, Cost, Retry, Windlass, current_context
from windlass.contrib.pydantic_ai import WindlassDurability
from windlass.errors import BudgetTimeout


def spender(*tokens: int) -> FunctionModel:
    """A model whose responses cost so many tokens; all but the last call a tool."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        given = sum(isinstance(message, ModelResponse) for message in messages)
        parts = [TextPart("done")] if given + 1 == len(tokens) else [call("help", f"call_{given}")]
        return ModelResponse(parts, usage=RequestUsage(input_tokens=tokens[given] - 1, output_tokens=1))

    return FunctionModel(answer)


def test_f1_a_run_settles_what_its_requests_took(any_app: Windlass) -> None:
    """With those of an agent in a tool. A later attempt has taken its tokens anew, and settles only what it
    pays for itself: nothing."""
    budget = any_app.budget("openai", rate=0, burst=1000)
    helper = Agent(spender(30), name="helper", capabilities=[WindlassDurability(budget=budget)])
    agent = Agent(spender(100, 50), name="agent", capabilities=[WindlassDurability(budget="openai")])

    @agent.tool_plain
    async def help() -> str:
        return (await helper.run("help")).output

    @any_app.task(budgets=[Cost("openai", tokens=lambda: 400)], retry=Retry(2, base=0))
    async def work(ctx: Context) -> int:
        result = await agent.run("work")
        if ctx.attempt == 1:
            raise OSError("after the agent")
        return result.usage.total_tokens

    job = work.enqueue()
    any_app.run_until_idle(wait=1)
    assert job.result() == 150
    with pytest.raises(BudgetTimeout):
        budget.acquire(821, timeout=0.1)
    budget.acquire(820, timeout=5)


def test_f1_a_run_that_waits_gives_back_what_it_did_not_use(app: Windlass) -> None:
    """And tells what it has used before: its requests count one by one."""
    budget = app.budget("openai", rate=0, burst=1000)
    agent = Agent(spender(100, 50), name="agent", capabilities=[WindlassDurability(budget="openai")])

    @agent.tool_plain(metadata={"windlass": False})
    async def help() -> str:
        return str(await current_context().wait("help", type=str))

    @app.task(budgets=[Cost("openai", tokens=lambda: 400)])
    async def work() -> str:
        return (await agent.run("work")).output

    job = work.enqueue()
    app.run_until_idle()
    assert job.status() == "scheduled"
    with pytest.raises(BudgetTimeout):
        budget.acquire(901, timeout=0.1)
    app.signal(job, "help", "yes")
    app.run_until_idle()
    assert job.result() == "done"
    with pytest.raises(BudgetTimeout):
        budget.acquire(851, timeout=0.1)
    budget.acquire(850, timeout=5)


def test_f1_a_task_that_takes_nothing_of_the_budget_is_told(app: Windlass) -> None:
    agent = Agent(spender(1), name="agent", capabilities=[WindlassDurability(budget="openai")])

    @app.task(retry=Retry(1))
    async def work() -> str:
        return (await agent.run("work")).output

    job = work.enqueue()
    app.run_until_idle()
    assert "takes nothing of budget openai" in job.record().errors[-1].message
