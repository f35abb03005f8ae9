"""`python -m bench engine flow`: how its figures are worked out, and once the whole of it."""

import json
import tempfile
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from bench.__main__ import bench as command
from bench.engine.figures import Taken, Where
from bench.engine.flow.claims import KEYED_NEEDS, Claimer, declare_plenty, payloads
from bench.engine.flow.plan import FlowPlan, make_flow_plan
from bench.engine.flow.report import KEYED, RATIOS, Times, report
from bench.engine.flow.scenarios import Thirds, Waits
from bench.engine.jobs import TASK
from bench.engine.places import Places
from bench.engine.rounds import Rounds, Step
from bench.meters import Meter
from bench.servers import Servers
from tests.postgres import Server
from windlass.store.budgets import bucket_key

BARE = {
    "claim_finish",
    "claim_finish_held",
    "claim_finish_no_budget",
    "claim_finish_budget",
    "claim_finish_budget_by_key",
}
BY_WORKERS = {"unkeyed", "one_key", *KEYED}
SCENARIOS = BARE | BY_WORKERS | {"plain_enqueue", "keyed_enqueue", "acquire"}
WAITS = {"fair_wait", "fair_wait_from_call", "limited_wait", "limited_wait_from_call", "schedule_fire"}
AIMS = [
    "held_vs_none",
    "budget_vs_none",
    *(f"{name}_vs_unkeyed" for name in KEYED),
    "fair_wait_max_ms",
    "limited_wait_max_ms",
]
PINNED = {"pinned_first_third", "pinned_last_third", "pinned_last_vs_first", "pinned_dead_rows_per_job"}
TINY = {"jobs": 60, "seconds": 0.3, "rounds": 1, "held": 50, "crowd": 80, "tries": 1}
WHERE = Where(store="sqlite", place="here", versions={}, settings={}, seconds=1.0)


def tiny(*arguments: str) -> dict[str, Any]:
    """Run the command with little of everything and read its JSON."""
    sizes = [word for name, value in TINY.items() for word in (f"--{name}", str(value))]
    result = CliRunner().invoke(command, ["engine", "flow", "--quick", "--json", *sizes, *arguments])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    assert {name: found["plan"][name] for name in TINY} == TINY
    return found


def check_store(store: dict[str, Any]) -> None:
    """Every figure is there, with a value for each round or try that is more than nothing."""
    assert set(store["rates"]) == SCENARIOS
    assert set(store["cpu_per_1000_jobs"]) == BARE
    assert set(store["ratios"]) == set(RATIOS)
    pinned = store["store"] == "postgresql"
    assert set(store["others"]) == WAITS | (PINNED if pinned else set())
    assert [aim["figure"] for aim in store["aims"]] == AIMS + ["pinned_last_vs_first"] * pinned
    for name, figure in {**store["rates"], **store["ratios"]}.items():
        assert 0 < figure["low"] <= figure["median"] <= figure["high"], name
        assert len(figure["rounds"]) == store["rounds"] == 1
    for figure in (store["others"][name] for name in WAITS):
        assert figure["unit"] == "ms"
        assert len(figure["rounds"]) == TINY["tries"]
    assert store["rates"]["acquire"]["unit"] == "calls/s"


def test_the_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    [store] = tiny("--store", "sqlite")["stores"]
    assert store["store"] == "sqlite"
    check_store(store)
    assert list(tmp_path.iterdir()) == []


async def test_on_postgresql_places_are_databases_that_are_dropped_again(pg_server: Server) -> None:
    """The whole run would take too long for a test: one claimer, beside held jobs and with a budget."""
    plan = make_flow_plan(jobs=60)
    async with Places(Servers("wheel", pg_server.dsn())).fresh() as place:
        await declare_plenty(place.store)
        claimer = Claimer(place.store, plan, "bench", KEYED_NEEDS)
        await claimer.begin()
        await claimer.hold_at_key(50, lambda text: None)
        await claimer.fill()
        assert (await claimer.claim_finish()).jobs == 60
        reading = place.meter.read()
        assert reading.wal
        assert reading.server
    with psycopg.connect(pg_server.dsn()) as again:
        rows = again.execute("SELECT datname FROM pg_database WHERE datname LIKE 'bench%'")
        assert rows.fetchall() == []


def test_a_run_is_a_million_jobs_of_one_key_and_a_quick_one_less() -> None:
    assert make_flow_plan().crowd == 1_000_000
    assert make_flow_plan().tries >= make_flow_plan(quick=True).tries >= 20
    assert make_flow_plan(quick=True).crowd == 200_000
    assert make_flow_plan(jobs=10).keyed == 10


def test_payloads_have_the_planned_size_and_the_keys_in_turn() -> None:
    plan = FlowPlan(payload_bytes=120, enqueue_batch=7, keys=3)
    [need] = KEYED_NEEDS[TASK]
    made = payloads(plan)
    assert {len(payload) for payload in made} == {120}
    assert len({*made}) == 7
    assert [bucket_key(payload, need) for payload in made] == [
        "000",
        "001",
        "002",
        "000",
        "001",
        "002",
        "000",
    ]


async def test_ratios_are_of_a_round_and_waits_are_judged_by_the_longest() -> None:
    rounds = Rounds(FlowPlan(rounds=2), Meter(), 2.0**40, lambda text: None)
    speeds = dict.fromkeys(SCENARIOS, 100) | {"claim_finish_held": 80, "claim_finish_budget": 75}

    def step(name: str) -> Step:
        async def run() -> Taken:
            return Taken(speeds[name], 1.0)

        return Step(run)

    async def nothing() -> None:
        speeds["claim_finish"] = 50  # in the second round the machine is slower

    await rounds.run([{name: step(name)} for name in sorted(SCENARIOS)], after_each=nothing)
    times = Times(
        fair=Waits(answered=[5.0, 101.0, 7.0], called=[6.0, 102.0, 8.0]),
        limited=Waits(answered=[2.0], called=[3.0], ran_out=True),
        fires=[250.0],
        pinned=Thirds([1000.0, 1200.0, 950.0], 2.5),
    )
    found = report(rounds, times, WHERE)
    assert found.ratios["held_vs_none"].rounds == [0.8, 1.6]
    assert found.others["fair_wait"].median == 7
    assert found.others["pinned_last_vs_first"].median == 0.95
    assert {aim.figure: aim.met for aim in found.aims} == dict.fromkeys(
        [*AIMS, "pinned_last_vs_first"], True
    ) | {"fair_wait_max_ms": False}
    assert any("limited_wait" in note for note in found.notes)
