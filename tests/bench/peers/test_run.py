"""`python -m bench`: the ledger counts, a measurement works from end to end, the page tells losses."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench import __main__ as command
from bench import options
from bench.peers import ledger, program, run
from bench.peers.findings import aims, losses
from bench.peers.page import write_page
from bench.peers.plan import FULL, QUICK
from bench.peers.scenarios import drain, idle
from bench.peers.subjects import HERE, SUBJECTS
from bench.servers import Servers, started
from tests.postgres import Server

KIT = HERE / "kit"
BY_NAME = {each.name: each for each in SUBJECTS}
WINDLASS, AWA = BY_NAME["windlass"], BY_NAME["awa"]


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


def test_every_peer_pins_every_version() -> None:
    for subject in SUBJECTS:
        lines = (subject.folder / "requirements.txt").read_text("utf-8").splitlines()
        pins = [line for line in lines if line and not line.startswith(("#", "-e ."))]
        assert pins, subject.name
        assert all("==" in line for line in pins), subject.name
        assert (subject.folder / "peer.py").exists()


def test_plain_functions_take_part_in_one_scenario() -> None:
    threads = BY_NAME["windlass_threads"]
    assert [each.name for each in run.scenarios(FULL) if each.takes(threads)] == ["drain_one"]
    assert all(each.takes(WINDLASS) for each in run.scenarios(FULL))


def test_the_plans_name_every_scenario_once() -> None:
    for plan in (FULL, QUICK):
        names = [each.name for each in run.scenarios(plan)]
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


@pytest.mark.stock
def test_what_the_server_is_stands_on_the_page(stock_server: Server, tmp_path: Path) -> None:
    """Figures of a server without jit were once all there was, and nothing on the page told."""
    servers = Servers("stock", stock_server.dsn()).settings()
    about = servers["PostgreSQL"]
    assert (about["server"], about["jit"], about["fsync"]) == ("stock", "on", "off")
    assert about["changed from its defaults"] == "nothing"
    write_page(tmp_path, {**found(), "servers": servers})
    page = (tmp_path / "README.md").read_text("utf-8")
    assert f"PostgreSQL {about['version']} (stock, jit on)" in page
    assert "changed from its defaults nothing" in page


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


def found(**figures: Any) -> dict[str, Any]:
    peers = {each.name: {**dataclasses.asdict(each), "versions": {}, "settings": {}, "bulk": "", "batch": 1}
             for each in (WINDLASS, AWA)}  # fmt: skip
    return {
        "measured_at": "2026-01-01T00:00:00+00:00",
        "commit": "abc",
        "plan": dataclasses.asdict(QUICK),
        "machine": {"cores": 2, "processor": "p", "os": "o", "python": "3"},
        "servers": {},
        "peers": peers,
        "scenarios": figures,
        "notes": [],
    }


def test_the_page_says_where_windlass_loses(tmp_path: Path) -> None:
    results = found(
        drain_one={"windlass": [{"rate": 50.0}, {"rate": 70.0}, {"rate": 60.0}], "awa": [{"rate": 10.0}]},
        pick_up={"windlass": [{"p50_ms": 3.0, "p99_ms": 4.0}], "awa": [{"p50_ms": 2.0, "p99_ms": 5.0}]},
        killed_child={"windlass": [{"all_back_s": 1.0, "not_ended": 0}], "awa": [{"failed": "gone"}]},
    )
    (loss,) = losses(results)
    assert "median" in loss
    assert "Awa" in loss
    verdicts = {aim.what: aim.met for aim in aims(results)}
    assert verdicts["Drain, one process ÷ the best library on PostgreSQL (Awa)"] is True
    assert verdicts["Pick-up at 200/s, median"] is False
    assert verdicts["Pick-up at 200/s, 99th percentile"] is True
    write_page(tmp_path, json.loads(json.dumps(results)))
    page = (tmp_path / "README.md").read_text("utf-8")
    assert loss in page
    assert "killed_child of Awa: gone" in page
    assert (tmp_path / "drain_one-rate.png").stat().st_size > 1000


@pytest.mark.slow
def test_an_idle_worker_costs_little_and_asks_rarely(
    pg_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "interpreter", lambda subject: Path(sys.executable))
    servers = Servers("wheel", pg_server.dsn("postgres"))
    figures = idle.cost(servers, WINDLASS, dataclasses.replace(QUICK, idle=2))
    assert set(figures) == {"worker_percent", "server_percent", "transactions", "connections"}
    assert figures["transactions"] > 0


def test_what_an_earlier_commit_did_stands_beside_it(tmp_path: Path) -> None:
    earlier, *others = run.chosen("awa", "v0")
    assert (earlier.name, earlier.title, earlier.folder) == (
        "windlass_before",
        "Windlass at v0",
        WINDLASS.folder,
    )
    assert [each.name for each in others] == ["windlass", "awa"]
    results = found(
        drain_one={"windlass_before": [{"rate": 50.0}], "windlass": [{"rate": 100.0}]},
        keyed={"windlass_before": [{"rate": 10.0}], "windlass": [{"rate": 60.0}]},
        chain={"windlass": [{"rate": 800.0}]},
    )
    results["peers"]["windlass_before"] = {**results["peers"]["windlass"], "title": earlier.title}
    verdicts = {aim.what: (aim.value, aim.met) for aim in aims(results)}
    assert verdicts["Drain, 100 keys, one job of each at a time ÷ plain"] == ("0.60 ×", True)
    assert verdicts["Drain, one key, one job at a time"] == ("800 jobs/s", False)
    assert list(losses(results)) == []  # an earlier self is no peer
    write_page(tmp_path, json.loads(json.dumps(results)))
    page = (tmp_path / "README.md").read_text("utf-8")
    assert "| Drain, 100 keys, one job of each at a time | jobs/s | 10 | 60 | 6.00 |" in page


@pytest.mark.parametrize("kind", ["ordered", "budget_by_key"])
def test_jobs_that_something_could_keep_back_are_drained(
    kind: str, pg_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "interpreter", lambda subject: Path(sys.executable))
    small = dataclasses.replace(WINDLASS, keyed={kind: 100})
    servers = Servers("wheel", pg_server.dsn("postgres"))
    figures = drain.keyed(servers, small, dataclasses.replace(QUICK, drain=2), kind)
    assert (figures["jobs"], figures["twice"], figures["left"]) == (500, 0, 0)
