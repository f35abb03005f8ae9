"""windlass budgets and budget …: what tokens there are, and changing that while it is in use [F1] [F7]."""

import pytest

from tests.cli.kit import Desk
from tests.conformance.kit import Rig
from windlass.cli.budgets import budget_row
from windlass.store.records import BudgetRecord, Need


def found(desk: Desk, name: str) -> BudgetRecord:
    budgets = desk.visit(lambda rig: rig.store.budgets())
    return next(budget for budget in budgets if budget.name == name)


def test_f1_set_makes_a_budget_and_changes_it(any_desk: Desk) -> None:
    said = any_desk.ok("budget", "set", "github", "--rate", "5000/h", "--burst", "100")
    assert "5000/h" in said
    record = found(any_desk, "github")
    assert record.rate == pytest.approx(5000 / 3600)
    assert (record.burst, record.tokens) == (100, 100)
    answer = any_desk.json(
        "budget", "set", "github", "--breaker", "5", "--breaker-pause", "1m", "--key", "org"
    )
    assert (answer["breaker"], answer["breaker_pause"]) == (5, 60)
    assert (answer["burst"], answer["key"]) == (100, "org")
    any_desk.ok("budget", "set", "github", "--key", "none", "--rate", "10/s")
    record = found(any_desk, "github")
    assert (record.key, record.rate, record.breaker) == (None, 10, 5)


def test_f1_budgets_lists_them(any_desk: Desk) -> None:
    assert any_desk.json("budgets") == {"budgets": []}
    any_desk.ok("budget", "set", "maps", "--rate", "100/m", "--breaker", "3")
    any_desk.ok("budget", "set", "github", "--rate", "10", "--key", "org")
    any_desk.ok("budget", "drain", "github", "--for", "10m")
    github, maps = any_desk.json("budgets")["budgets"]
    assert (github["name"], github["rate_text"], github["tokens"], github["waiting"]) == (
        "github",
        "10/s",
        0,
        0,
    )
    assert 590 < github["paused_for"] <= 600
    assert (maps["rate_text"], maps["burst"], maps["state"]) == ("100/m", 2, "closed")
    said = any_desk.ok("budgets")
    assert "10/s per org" in said
    assert "9 min" in said
    assert "closed, 0 of 3 failures in a row" in said


def test_f1_budgets_tells_what_was_used_of_a_cap(any_desk: Desk) -> None:
    any_desk.ok("budget", "set", "api", "--rate", "10", "--burst", "5", "--cap", "2000", "--cap-per", "month")
    any_desk.ok("budget", "take", "api", "-n", "4")
    any_desk.ok("budget", "set", "maps", "--rate", "10", "--key", "org", "--cap", "2000")
    said = any_desk.ok("budgets")
    assert "4 of 2,000 per month" in said
    assert "up to 2,000 per day per org" in said


def test_f1_take_by_hand(any_desk: Desk) -> None:
    any_desk.ok("budget", "set", "api", "--rate", "1/h", "--burst", "5")
    assert any_desk.ok("budget", "take", "api", "-n", "4") == "took 4 tokens of api\n"
    assert any_desk.json("budget", "take", "api") == {"granted": True, "wait": None}
    short = any_desk.run("budget", "take", "api", "-n", "2")
    assert short.exit_code == 1
    assert short.stdout.startswith("api does not grant 2 tokens now; ask again in 1 h 59 min")
    assert any_desk.ok("budget", "take", "api", "-n", "5", "--key", "acme") == "took 5 tokens of api\n"
    assert "burst" in any_desk.refused("budget", "take", "api", "-n", "6")


def test_f1_a_budget_that_never_grows(desk: Desk) -> None:
    desk.ok("budget", "set", "once", "--rate", "0", "--burst", "1")
    desk.ok("budget", "take", "once")
    again = desk.run("budget", "take", "once")
    assert (again.exit_code, again.stdout) == (
        1,
        "once does not grant 1 token now; it will never have so many\n",
    )
    assert '"wait": null' in desk.run("budget", "take", "once", "--json").stdout


def test_f1_drain(any_desk: Desk) -> None:
    any_desk.ok("budget", "set", "api", "--rate", "10/s")
    assert any_desk.ok("budget", "drain", "api", "--for", "90s") == (
        "api is drained and grants nothing for 1 min 30 s\n"
    )
    assert found(any_desk, "api").paused_for > 80
    assert any_desk.ok("budget", "drain", "api", "--key", "acme") == (
        "api, key 'acme' is drained and refills from now on\n"
    )


def test_f1_remove(any_desk: Desk) -> None:
    any_desk.ok("budget", "set", "api", "--rate", "10/s")
    assert any_desk.ok("budget", "remove", "api").startswith("api is removed; jobs that need it wait")
    assert any_desk.json("budgets") == {"budgets": []}


@pytest.mark.parametrize("verb", [("drain",), ("take",), ("remove",)])
def test_a_mistyped_name_says_which_there_are(desk: Desk, verb: tuple[str, ...]) -> None:
    desk.ok("budget", "set", "github", "--rate", "10/s")
    assert desk.refused("budget", *verb, "gihtub") == (
        "Error: no budget 'gihtub'; there are github; `windlass budget set NAME --rate RATE` makes one\n"
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("api",), 1),
        (("api", "--burst", "5"), 1),
        (("api", "--rate", "fast"), 2),
        (("api", "--rate", "-1"), 2),
        (("api", "--rate", "1", "--burst", "0"), 2),
        (("api", "--rate", "1", "--breaker-pause", "0s"), 1),
        (("No Name", "--rate", "1"), 1),
    ],
)
def test_what_makes_no_sense_is_refused(desk: Desk, arguments: tuple[str, ...], code: int) -> None:
    said = desk.refused("budget", "set", *arguments, code=code)
    assert code == 2 or len(said.splitlines()) == 1
    assert desk.json("budgets") == {"budgets": []}


def test_a_row_shows_what_matters() -> None:
    record = BudgetRecord(
        name="b",
        rate=0.5,
        burst=2000,
        tokens=12.34,
        paused_for=90,
        state="open",
        failures=7,
        breaker=5,
        waiting=10_000,
    )
    shown = budget_row(record)
    assert shown == (
        "b",
        "30/m",
        "2,000",
        "12.3",
        "",
        "open, 7 of 5 failures in a row",
        "1 min 30 s",
        "10,000+",
    )


def test_m4_a_job_that_waits_for_tokens_says_why_there_are_none(any_desk: Desk) -> None:
    """Full, and yet it waits: what is left of the cap is less. Or nobody has declared the budget."""

    any_desk.ok("budget", "set", "model", "--rate", "1000000", "--burst", "100", "--cap", "150")
    any_desk.ok("budget", "take", "model", "-n", "100")

    async def work(rig: Rig) -> list[int]:
        ids = await rig.add("dear", "odd")
        needs = {"dear": [Need("model", n=90)], "odd": [Need("nobody")]}
        assert await rig.store.claim(await rig.worker(), ["default"], 10, needs) == []
        return ids

    dear, odd = any_desk.visit(work)
    assert "waits for tokens of budget model; 50 left of its cap of 150 per day" in shown(any_desk, dear)
    assert "waits for tokens of budget nobody; nobody has declared it" in shown(any_desk, odd)
    assert "50 left of its cap" in any_desk.ok("gates")


def shown(desk: Desk, id: int) -> str:
    return " ".join(desk.ok("job", "show", str(id)).split())


def test_f1_a_cap_is_written_as_code_writes_it(any_desk: Desk) -> None:
    """It was a number only here, and a text only there."""
    any_desk.ok("budget", "set", "api", "--rate", "10", "--burst", "5", "--cap", "2k/month")
    assert (found(any_desk, "api").cap, found(any_desk, "api").cap_per) == (2000, "month")
    any_desk.ok("budget", "set", "api", "--cap", "3000")
    assert (found(any_desk, "api").cap, found(any_desk, "api").cap_per) == (3000, "month")
    any_desk.ok("budget", "set", "api", "--cap", "1M/day", "--cap-per", "day")
    assert (found(any_desk, "api").cap, found(any_desk, "api").cap_per) == (1_000_000, "day")
    assert "write it like 2M/day" in any_desk.refused("budget", "set", "api", "--cap", "2M", code=2)
    said = any_desk.refused("budget", "set", "api", "--cap", "2M/day", "--cap-per", "hour")
    assert "is per day, and cap_per is 'hour'" in said
    any_desk.ok("budget", "set", "api", "--cap", "none")
    assert found(any_desk, "api").cap is None


def test_f1_a_drain_is_as_long_as_the_api_takes_it(desk: Desk) -> None:
    desk.ok("budget", "set", "api", "--rate", "10/s")
    desk.ok("budget", "drain", "api", "--for", "30d")
    assert "the maximum is 2,592,000 s" in desk.refused("budget", "drain", "api", "--for", "31d", code=2)
