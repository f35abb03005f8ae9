"""`python -m bench engine starts`: how its figures are worked out, and once all of it."""

import json

import pytest
from click.testing import CliRunner

from bench.__main__ import bench
from bench.engine.figures import Where
from bench.engine.starts.plan import APPS, WAYS, StartPlan, make_start_plan
from bench.engine.starts.report import about, report

WHERE = Where(store="sqlite", place="here", versions={}, settings={}, seconds=1.0)


def test_aims_are_for_what_is_forked() -> None:
    plan = StartPlan()
    values = {
        f"{app} {way}: {what}": [value]
        for app in APPS
        for way in WAYS
        for what, value in {
            "killed to up": 20.0,
            "MiB that each of 2 has alone": 4.0,
            "MiB that each of 16 has alone": 6.0,
        }.items()
    }
    found = report(values, 1, plan, WHERE)
    assert {aim.figure.split()[1] for aim in found.aims} == {"fork:"}
    assert [aim.met for aim in found.aims] == [True, True, True, False, True, False]
    assert {figure.unit for figure in found.rates.values()} == {"ms"}
    assert {figure.unit for figure in found.others.values()} == {"MiB"}
    assert "16 idle children" in about(plan.conditions())


def test_a_quick_plan_has_fewer_children_and_flags_change_it() -> None:
    assert make_start_plan(quick=True).many < make_start_plan().many
    assert make_start_plan(rounds=3).rounds == 3


@pytest.mark.slow
def test_all_of_it() -> None:
    words = ["engine", "starts", "--store", "sqlite", "--quick", "--rounds", "1", "--json"]
    result = CliRunner().invoke(bench, words)
    assert result.exit_code == 0, result.output
    (store,) = json.loads(result.stdout)["stores"]
    for app in APPS:
        forked, anew = (store["rates"][f"{app} {way}: CPU of a start"]["median"] for way in WAYS)
        assert forked < anew
