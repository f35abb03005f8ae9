"""`python -m bench engine processes`: how its figures are worked out, and once the whole of it."""

import json
import os
from typing import Any

import pytest
from click.testing import CliRunner

from bench.__main__ import bench as command
from bench.engine.figures import Where
from bench.engine.processes.plan import ProcessPlan, make_process_plan
from bench.engine.processes.report import report
from bench.engine.processes.run import pss
from tests.postgres import Server

WHERE = Where(store="postgresql", place="here", versions={}, settings={}, seconds=1.0)


def test_the_sizes_are_those_that_were_given() -> None:
    assert make_process_plan().processes == (1, 16, 60)
    assert make_process_plan(quick=True).processes == (1, 4)
    assert make_process_plan(quick=True, processes=(3,), seconds=1.0).processes == (3,)


def test_an_aim_counts_connections_for_each_process() -> None:
    plan = ProcessPlan(processes=(1, 16))
    taken = {"connections_idle_1": [3.0], "connections_idle_16": [24.0], "connections_load_16": [25.0]}
    aims = report(taken, plan, 1, WHERE).aims
    assert [(aim.value, aim.met) for aim in aims] == [(1.5, True), (25 / 16, False)]


def test_memory_is_read_where_the_system_says() -> None:
    assert pss(os.getpid()) > 0
    assert pss(2**30) == 0


@pytest.mark.slow
@pytest.mark.parametrize("store", ["postgresql", "sqlite"])
def test_the_whole_of_it(pg_server: Server, store: str) -> None:
    words = ["engine", "processes", "--json", "--processes", "1", "--seconds", "1", "--store", store]
    result = CliRunner().invoke(command, [*words, "--server", pg_server.dsn()])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)["stores"][0]
    figures = {**found["rates"], **found["others"]}
    assert figures["worker_memory_idle_1"]["median"] > 0
    if store == "postgresql":
        assert 2 <= figures["connections_idle_1"]["median"] <= 4
        assert figures["transactions_load_1"]["median"] > 0
