"""The page of a run beside peers: every loss, what was left out, and no claim that was not measured."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from bench.peers import left_out, run
from bench.peers.findings import aims
from bench.peers.losses import losses
from bench.peers.page import write_page
from bench.peers.plan import FULL, QUICK, SMOKE
from bench.peers.scenarios.catalog import scenarios
from bench.peers.subjects import SUBJECTS
from bench.servers import Servers
from tests.postgres import Server

BY_NAME = {each.name: each for each in SUBJECTS}
WINDLASS, AWA = BY_NAME["windlass"], BY_NAME["awa"]


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


def found(**figures: Any) -> dict[str, Any]:
    names = {"windlass", "awa"}.union(*figures.values())
    told = {"versions": {}, "settings": {}, "bulk": "", "batch": 1}
    peers = {name: {**dataclasses.asdict(each), **told} for name, each in BY_NAME.items() if name in names}
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


def test_the_loop_by_hand_families_and_faults_are_losses_too() -> None:
    results = found(
        bulk={"windlass": [{"bulk": 50.0}], "skip_locked": [{"bulk": 70.0}], "awa": [{"bulk": 60.0}]},
        crowd_4={"windlass": [{"rate": 3.0}], "awa": [{"rate": 9.0}]},
        backlog_10000={"windlass": [{"rate": 3.0}], "awa": [{"rate": 1.0}]},
        killed_child={"windlass": [{"all_back_s": None, "not_ended": 1}], "awa": [{"all_back_s": 30.0}]},
        single={"windlass_sqlite": [{"single": 1.0}], "huey": [{"single": 2.0}]},
    )
    assert list(losses(results)) == [
        "**Single enqueue, one client**: Windlass on SQLite 1 jobs/s; better: Huey 2.",
        "**Bulk enqueue**: Windlass 50 jobs/s; better: by hand: SKIP LOCKED 70, Awa 60.",
        "**Killed child: all its jobs run again after**: Windlass none in time; better: Awa 30.",
        "**4 worker processes**: Windlass 3 jobs/s; better: Awa 9.",
    ]


def test_what_was_not_measured_is_not_claimed() -> None:
    results = found(killed_host={"windlass": [{"all_back_s": 1.0, "not_ended": 0}]})
    (lost,) = (aim for aim in aims(results) if aim.what.startswith("Jobs lost"))
    assert lost.what == "Jobs lost, or not back within the wait: killed host"
    assert lost.value == "0 in 1 trials; killed child, PostgreSQL restarted: not measured"
    (lost,) = (aim for aim in aims(found()) if aim.what.startswith("Jobs lost"))
    assert (lost.value, lost.met) == ("killed child, killed host, PostgreSQL restarted: not measured", None)


def test_what_came_too_late_was_measured() -> None:
    late = found(
        killed_child={"windlass": [{"all_back_s": None, "not_ended": 1}], "awa": [{"all_back_s": 30.0}]}
    )
    assert _rescue(late) == ("none in time; Awa 30", False)
    alone = found(killed_child={"windlass": [{"all_back_s": 0.5}], "awa": [{"all_back_s": None}]})
    assert _rescue(alone) == ("0.5 s; no library in time", True)
    unmeasured = found(killed_child={"windlass": [{"all_back_s": 0.5}], "awa": []})
    assert _rescue(unmeasured) == ("not measured", None)


def _rescue(results: dict[str, Any]) -> tuple[str, bool | None]:
    (aim,) = (aim for aim in aims(results) if aim.what.startswith("Killed child"))
    return aim.value, aim.met


def test_the_page_names_what_was_left_out_and_why(tmp_path: Path) -> None:
    asked = [WINDLASS, AWA, BY_NAME["rq"]]
    why = left_out.reasons(QUICK, asked, [WINDLASS, AWA], ["drain", "pinned", "restarted"], restart=False)
    assert why["peers"].keys() == BY_NAME.keys() - {"windlass", "awa"}
    assert (why["peers"]["rq"], why["peers"]["huey"]) == ("no redis-server was found", "not chosen")
    assert why["scenarios"]["crowd_16"] == "not in the quick plan"
    assert why["scenarios"]["bulk"] == "not chosen"
    assert why["scenarios"]["restarted"] == "PostgreSQL was given by its URL and is not restarted"
    assert not why["scenarios"].keys() & {"drain_one", "drain_two", "pinned"}
    results = {**found(drain_one={"windlass": [{"rate": 1.0}]}, pinned={"windlass": []}), "left_out": why}
    told = list(left_out.lines(results))
    assert told[0].startswith("peers, not chosen: PgQueuer, ")
    assert told[1] == "peers, no redis-server was found: RQ"
    assert "scenarios, not part of this run: `pinned`, `drain_two`" in told
    assert told[-1] == "`drain_one` without Awa"
    write_page(tmp_path, results)
    page = (tmp_path / "README.md").read_text("utf-8")
    assert "smaller run than the full one" in page
    assert all(f"- {line}" in page for line in told)


def test_a_smoke_run_claims_no_figure(tmp_path: Path) -> None:
    results = {**found(drain_one={"windlass": [{"rate": 1.0}]}), "plan": dataclasses.asdict(SMOKE)}
    write_page(tmp_path, results)
    assert "**This run measures nothing**" in (tmp_path / "README.md").read_text("utf-8")


def test_a_full_run_leaves_nothing_out() -> None:
    figures = {
        each.name: {who.name: [{"rate": 1.0}] for who in SUBJECTS if each.takes(who)}
        for each in scenarios(FULL)
    }
    peers = {each.name: dataclasses.asdict(each) for each in SUBJECTS}
    assert list(left_out.lines({**found(**figures), "peers": peers})) == []
    assert left_out.reasons(FULL, SUBJECTS, SUBJECTS, [], restart=True) == {"peers": {}, "scenarios": {}}
