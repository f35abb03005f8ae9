"""What jobs cost of budgets, as tasks say it, and what handlers say that they really used [F1]."""

import pytest

from windlass import Context, Cost, Windlass, current_context
from windlass.errors import ConfigurationError, InvalidOption


def costs(app: Windlass, id: int) -> dict[str, int]:
    return app.job(id).record().options.costs


def test_f1_a_cost_is_computed_when_the_job_is_made(any_app: Windlass) -> None:
    """[F1] By a function of its arguments, or from one of them, with its default where it is not given."""
    any_app.budget("openai", rate=0, burst=1000)

    @any_app.task(
        name="ask",
        budgets=[Cost("openai", tokens=lambda prompt, **_: len(prompt) // 4), Cost("small", "most")],
    )
    async def ask(ctx: Context, prompt: str, most: int = 7) -> None: ...

    assert costs(any_app, ask.enqueue("x" * 400).id) == {"openai": 100, "small": 7}
    assert costs(any_app, ask.enqueue(prompt="x", most=3).id) == {"openai": 1, "small": 3}
    ids = ask.enqueue_many([("x" * 8,), {"prompt": "x" * 40, "most": 1}])
    assert [costs(any_app, id)["openai"] for id in ids] == [2, 10]


@pytest.mark.parametrize("tokens", [-1, 10**9 + 1, 1.5, "7", None, True])
def test_f1_a_cost_that_is_none_is_refused_and_nothing_is_made(app: Windlass, tokens: object) -> None:
    """[F1]"""

    @app.task(name="ask", budgets=[Cost("b", tokens=lambda **_: tokens)])  # type: ignore[arg-type]
    async def ask() -> None: ...

    with pytest.raises(InvalidOption, match=r"task ask: a job costs .* of budget b, which is not a whole"):
        ask.enqueue()
    assert app.jobs().count().jobs == 0


def test_f1_a_function_that_raises_is_a_typed_error(app: Windlass) -> None:
    """[F1]"""

    @app.task(name="ask", budgets=[Cost("b", tokens=lambda prompt: len(prompt) // 0)])
    async def ask(prompt: str) -> None: ...

    with pytest.raises(InvalidOption, match="what a job costs of budget b cannot be told: ZeroDivisionError"):
        ask.enqueue("x")
    with pytest.raises(InvalidOption, match="item 0: "):
        ask.enqueue_many([("x",)])
    assert app.jobs().count().jobs == 0


def test_f1_what_makes_no_sense_is_refused_at_the_decorator(app: Windlass) -> None:
    """[F1]"""
    with pytest.raises(ConfigurationError, match="goes by the argument 'size', which it does not have"):
        app.task(budgets=[Cost("b", "size")])(lambda prompt: None)
    with pytest.raises(ConfigurationError, match=r"a fixed number is written budgets={.b.: 5}"):
        Cost("b", tokens=5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="default=0"):
        Cost("b", "size", default=0)


def test_f1_a_run_says_what_it_really_used(any_app: Windlass) -> None:
    """[F1] From a coroutine and from a thread; each run corrects its bucket by the difference."""
    budget = any_app.budget("b", rate=0, burst=100, key="who")

    @any_app.task(name="more", budgets=[Cost(budget, tokens="guess")])
    async def more(ctx: Context, guess: int, used: int, who: str = "x") -> None:
        await ctx.aspent(budget, used + 5)
        await ctx.aspent("b", used)

    @any_app.task(name="less", budgets=[Cost("b", tokens="guess")])
    def less(guess: int, used: int, who: str = "y") -> None:
        current_context().spent("b", used)

    more.enqueue(10, 35)
    less.enqueue(60, 20)
    assert any_app.run_until_idle().succeeded == 2
    for who, left in (("x", 65), ("y", 80)):
        budget.acquire(left, key=who, timeout=1)


def test_f1_only_what_the_task_draws_from_is_settled(any_app: Windlass) -> None:
    """[F1]"""
    any_app.budget("b", rate=0, burst=100)
    errors: list[str] = []

    @any_app.task(name="t", budgets=["b"])
    async def t(ctx: Context) -> None:
        for budget, tokens in (("c", 1), ("b", -1), ("b", 10**10), ("b", 1.5)):
            try:
                await ctx.aspent(budget, tokens)  # type: ignore[arg-type]
            except InvalidOption as error:
                errors.append(str(error))

    t.enqueue()
    assert any_app.run_until_idle().succeeded == 1
    assert errors[0].startswith("task t takes nothing of budget c")
    assert len(errors) == 4


def test_f1_tokens_acquired_by_hand_are_settled(any_app: Windlass) -> None:
    """[F1]"""
    budget = any_app.budget("b", rate=0, burst=100)
    budget.acquire(60)
    budget.settle(60, 10)
    budget.acquire(90, timeout=5)
    with pytest.raises(ValueError, match="used=-1"):
        budget.settle(60, -1)
