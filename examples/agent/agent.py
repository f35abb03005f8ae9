"""An agent that plans, asks a human, acts and reports. A finished step never repeats, whatever is killed.

windlass worker examples.agent.agent:app -q agents=20        # docs/guides/jobs-that-wait.md is about it
"""

from dataclasses import dataclass

from windlass import Context, Windlass

app = Windlass()
app.budget("model", rate="6000/m")  # calls a minute, for the whole cluster


@dataclass
class Approval:
    """What the human answers."""

    ok: bool


async def ask(ctx: Context, prompt: str) -> str:
    """Stands for your model's client: each token is shown live, and the whole is kept by the step."""
    for token in (answer := [f"<{prompt}>", "done"]):
        await ctx.emit(token)
    return " ".join(answer)


@app.task(name="agent", queue="agents", budgets={"model": 3})
async def agent(ctx: Context, goal: str) -> str:
    """Three steps, with a human between the first and the second."""
    plan = await ctx.step("plan", ask, ctx, f"plan {goal}")
    if not (await ctx.wait("approved", timeout="7d", type=Approval)).ok:
        return "refused"
    act = await ctx.step("act", ask, ctx, plan)
    return await ctx.step("report", ask, ctx, act)
