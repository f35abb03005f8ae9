"""`python -m bench`: the ledger counts, a measurement works from end to end."""

import ast
import dataclasses
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from bench import __main__ as command
from bench import options
from bench.peers import ledger, program
from bench.peers.plan import FULL, PLANS, QUICK
from bench.peers.scenarios import drain, idle, killed
from bench.peers.scenarios.catalog import scenarios
from bench.peers.subjects import HERE, SUBJECTS, Subject
from bench.servers import Servers, started
from tests.postgres import Server

KIT = HERE / "kit"
BY_NAME = {each.name: each for each in SUBJECTS}
WINDLASS = BY_NAME["windlass"]


def test_a_ledger_survives_kill_9(tmp_path: Path) -> None:
    text = "import os, bench_kit; [bench_kit.ran(n) for n in (3, 4, 3)]; os.kill(os.getpid(), 9)"
    environment = {"PYTHONPATH": str(KIT), "BENCH_LEDGER": str(tmp_path)}
    subprocess.run([sys.executable, "-c", text], env=environment, check=False)
    assert ledger.counted(tmp_path) == 3
    assert ledger.records(tmp_path)["number"].tolist() == [3, 4, 3]


def test_threads_that_begin_at_once_share_one_ledger(tmp_path: Path) -> None:
    text = (
        "import bench_kit as k, concurrent.futures as f; list(f.ThreadPoolExecutor(8).map(k.ran, range(200)))"
    )
    environment = {"PYTHONPATH": str(KIT), "BENCH_LEDGER": str(tmp_path)}
    subprocess.run([sys.executable, "-c", text], env=environment, check=True)
    assert sorted(ledger.records(tmp_path)["number"].tolist()) == list(range(200))


def test_a_host_is_killed_with_those_that_left_its_group() -> None:
    code = "import os, time; os.fork() or os.setpgrp(); os.write(1, b'%d\\n' % os.getpid()); time.sleep(60)"
    words = [sys.executable, "-c", code]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        pids = {int(process.stdout.readline()) for _ in range(2)}
        child = psutil.Process((pids - {process.pid}).pop())
        killed.kill([psutil.Process(process.pid), child])
        assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_every_peer_pins_every_version() -> None:
    for subject in SUBJECTS:
        lines = (subject.folder / "requirements.txt").read_text("utf-8").splitlines()
        pins = [line for line in lines if line and not line.startswith(("#", "-e ."))]
        assert pins, subject.name
        assert all("==" in line for line in pins), subject.name
        assert (subject.folder / "peer.py").exists()


def test_every_peer_names_the_pages_that_its_settings_are_from() -> None:
    for subject in SUBJECTS:
        if subject.library:
            keys = {node.value for node in ast.walk(source(subject)) if isinstance(node, ast.Constant)}
            assert "pages" in keys, subject.name


def source(subject: Subject) -> ast.Module:
    return ast.parse((subject.folder / "peer.py").read_text("utf-8"))


def constants(name: str, kind: str) -> dict[str, Any]:
    """The constants of a peer's program, whose libraries are not installed here, for a kind of jobs."""
    known: dict[str, Any] = {"bench_kit": SimpleNamespace(KIND=kind, KEYS=100)}
    for node in source(BY_NAME[name]).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).strip("()").isupper():
            exec(ast.unparse(node), known)  # noqa: S102 - our own program
    return known


def test_no_peer_is_set_up_for_jobs_that_it_is_not_given() -> None:
    """One limited entrypoint makes all claims of PgQueuer slower, a lock that becomes free wakes nobody in
    Procrastinate, and DBOS runs plain functions faster."""
    assert {kind: constants("pgqueuer", kind)["KEYS"] for kind in ("noop", "long", "keyed", "chain")} == {
        "noop": 0, "long": 0, "keyed": 100, "chain": 1
    }  # fmt: skip
    for peer in ("procrastinate", "dbos"):
        assert constants(peer, "keyed")["POLL"] == constants(peer, "chain")["POLL"] == 0.01
    workers = {kind: constants("absurd", kind) for kind in ("noop", "steps", "long_steps", "waiting")}
    assert [(each["WORKERS"], each["TASKS"]) for each in workers.values()] == [
        (8, 32), (16, 16), (16, 4), (16, 16)
    ]  # fmt: skip
    plain = {node.name for node in source(BY_NAME["dbos"]).body if isinstance(node, ast.FunctionDef)}
    assert {"noop", "long", "one", "steps", "long_steps"} <= plain


def test_the_wide_plan_leaves_no_peer_out() -> None:
    wide = {each.name: {s.name for s in SUBJECTS if each.takes(s)} for each in scenarios(PLANS["wide"])}
    full = {each.name: {s.name for s in SUBJECTS if each.takes(s)} for each in scenarios(FULL)}
    smaller = {name for name, who in full.items() if not who <= wide.get(name, set())}
    assert {re.sub("[0-9]+", "N", name) for name in smaller} <= {"crowd_N", "backlog_N", "idle_N"}


def test_plain_functions_take_part_in_one_scenario() -> None:
    threads = BY_NAME["windlass_threads"]
    assert [each.name for each in scenarios(FULL) if each.takes(threads)] == ["drain_one"]
    assert all(each.takes(WINDLASS) for each in scenarios(FULL))


def test_the_plans_name_every_scenario_once() -> None:
    for plan in PLANS.values():
        names = [each.name for each in scenarios(plan)]
        assert len(names) == len(set(names))
        assert {"single", "bulk", "drain_one", "drain_two", "pick_up", "pinned", "killed_host"} <= set(names)


@pytest.mark.parametrize("name", ["windlass", pytest.param("windlass_threads", marks=pytest.mark.slow)])
def test_a_backlog_is_drained_and_counted(
    name: str, pg_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real worker of Windlass, in this interpreter instead of an environment of its own."""
    monkeypatch.setattr(program, "interpreter", lambda subject: Path(sys.executable))
    servers = Servers("wheel", pg_server.dsn("postgres"))
    small = dataclasses.replace(BY_NAME[name], rate=500)
    figures = drain.one(servers, small, dataclasses.replace(QUICK, drain=2))
    assert (figures["jobs"], figures["twice"], figures["left"]) == (1_000, 0, 0)
    assert figures["rate"] > 0
    assert figures["wal_bytes"] >= 0  # so few jobs may be done before it is read for the first time


def test_a_server_of_somebody_else_is_not_restarted(pg_server: Server) -> None:
    with started(pg_server.dsn()) as servers:
        assert servers.restart is None
        assert "PostgreSQL was given by its URL: it was not restarted." in servers.notes()
        assert "max_connections = 200" in servers.settings()["PostgreSQL"]["changed from its defaults"]


def test_without_a_stock_server_the_command_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "find_stock", lambda: None)
    refused = CliRunner().invoke(command.bench, [])
    assert refused.exit_code == 2
    assert "--server wheel" in refused.output
    refused = CliRunner().invoke(command.bench, ["--server", "mysql://localhost"])
    assert "stock, wheel or a postgresql:// URL" in refused.output


@pytest.mark.slow
def test_an_idle_worker_costs_little_and_asks_rarely(
    pg_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "interpreter", lambda subject: Path(sys.executable))
    servers = Servers("wheel", pg_server.dsn("postgres"))
    figures = idle.cost(servers, WINDLASS, dataclasses.replace(QUICK, idle=2))
    assert set(figures) == {"worker_percent", "server_percent", "transactions", "connections"}
    assert figures["transactions"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ordered", "budget_by_key"])
def test_jobs_that_something_could_keep_back_are_drained(
    kind: str, pg_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "interpreter", lambda subject: Path(sys.executable))
    small = dataclasses.replace(WINDLASS, keyed={kind: 100})
    servers = Servers("wheel", pg_server.dsn("postgres"))
    figures = drain.keyed(servers, small, dataclasses.replace(QUICK, drain=2), kind)
    assert (figures["jobs"], figures["twice"], figures["left"]) == (500, 0, 0)
