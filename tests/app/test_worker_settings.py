"""The settings of a worker: leases that make sense, queues as people write them [C4] [K7]."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from windlass import Windlass
from windlass.errors import ConfigurationError, InvalidName
from windlass.settings import Settings, load, read_queues

NOWHERE = Path("/")


@pytest.fixture(autouse=True)
def nothing_was_said_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.settings._warned", set())


def settings(**code: Any) -> Settings:
    return load(code=code, environ={}, directory=NOWHERE)


def test_c4_the_defaults() -> None:
    """[C4] [C8] [K2]"""
    found = settings()
    assert (found.lease, found.sweep, found.shutdown, found.poison, found.processes) == (30, 15, 30, 3, 1)


@pytest.mark.parametrize("lease", [0, -5, "0s", "-5s", "999ms", 0.5, None, timedelta(-1)])
def test_c4_a_lease_that_would_lose_every_worker_falls_back(
    lease: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """[C4] With a warning that says so; None is no wish at all."""
    assert settings(lease=lease).lease == 30
    assert caplog.text.count("shorter than 1 s; using 30 s instead") == (lease is not None)
    assert settings(lease=lease).lease == 30
    assert len(caplog.records) <= 1  # said once, however often settings are read


@pytest.mark.parametrize("name", ["lease", "sweep"])
@pytest.mark.parametrize("span", ["10q", "soon", "", "-", "--5s", float("nan"), [], True])
def test_c4_what_is_no_span_of_time_is_refused(
    name: str, span: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """[C4] A slip must not pass for a wish."""
    with pytest.raises(ConfigurationError, match=rf"{name}: .* is not a span of time"):
        settings(**{name: span})
    assert caplog.text == ""


@pytest.mark.parametrize(("lease", "seconds"), [(1, 1), ("1s", 1), ("2m", 120), (timedelta(seconds=5), 5)])
def test_c4_a_lease_that_makes_sense_is_kept(
    lease: Any, seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    """[C4]"""
    assert settings(lease=lease).lease == seconds
    assert caplog.text == ""


@pytest.mark.parametrize("sweep", [0, "0s", -1, "-1s"])
def test_c8_sweeps_without_a_pause_fall_back(sweep: Any, caplog: pytest.LogCaptureFixture) -> None:
    """[C8]"""
    assert settings(sweep=sweep).sweep == 15
    assert "using 15 s instead" in caplog.text
    assert settings(sweep="100ms").sweep == 0.1


def test_the_environment_speaks_to_workers() -> None:
    found = load(
        environ={
            "WINDLASS_QUEUES": "mail=8, imports",
            "WINDLASS_PROCESSES": "4",
            "WINDLASS_LEASE": "45s",
            "WINDLASS_IMPORTS": "shop.tasks, billing,",
            "WINDLASS_MAX_MEMORY": "512MiB",
        },
        directory=NOWHERE,
    )
    assert found.queues == {"mail": 8, "imports": None}
    assert (found.processes, found.lease, found.max_memory) == (4, 45, 512 * 2**20)
    assert found.imports == ("shop.tasks", "billing")


def test_k7_queues_as_people_write_them() -> None:
    """[K7] Trimmed, blanks and repeats dropped."""
    assert read_queues(" mail = 8 ,, imports,imports ") == {"mail": 8, "imports": None}
    assert read_queues(["mail=8", " ", "imports"]) == {"mail": 8, "imports": None}
    assert read_queues({"mail": 8, "imports": None}) == {"mail": 8, "imports": None}
    assert read_queues("") == {}


@pytest.mark.parametrize(
    "queues",
    [
        "mail=", "mail=many", "mail=0", "mail=-1", "mail=1.5", {"mail": 0}, {"mail": True}, "Mail", 5,
        ["a b"], "mail=1001/process", f"mail={2**31}", {"mail": 2**31},
    ],
)  # fmt: skip
def test_k7_what_is_no_queue_is_refused(queues: Any) -> None:
    """[K7] Naming the setting."""
    with pytest.raises(ConfigurationError, match="queues"):
        settings(queues=queues)
    refused = pytest.raises((ConfigurationError, InvalidName), match="queue")
    with refused, Windlass("sqlite:///:memory:") as app:
        app.worker(queues)


def test_k1_a_process_has_up_to_a_thousand_slots_of_a_queue() -> None:
    """[K1] A sentence says so where it is told to have more."""
    assert read_queues("mail=1000/process") == {"mail": 1000}
    with pytest.raises(
        ConfigurationError, match=r"'mail': 5000/process slots .* a whole number from 1 to 1,000"
    ):
        settings(queues="mail=5000/process")


@pytest.mark.parametrize(
    "wrong",
    [{"processes": 0}, {"poison": 0}, {"max_jobs": -1}, {"shutdown": "soon"}, {"label_prefix": "a\n"}],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        settings(**wrong)


def test_a_misspelt_variable_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """With the setting that was probably meant; what resembles none may be anybody's."""
    environ = {
        "WINDLASS_LEASES": "5s",
        "WINDLASS_MAX_MEM": "1GiB",
        "WINDLASS_LOGLEVEL": "debug",
        "WINDLASS_HEALTH": "127.0.0.1:80",
        "WINDLASS_LOG_LEVEL": "info",
        "WINDLASS_SOAK_JOBS": "5",
        "WINDLASS_PORT": "tcp://10.0.0.1:80",
        "WINDLASS_SERVICE_HOST": "10.0.0.1",
        "OTHER_LEASE": "5s",
    }
    assert load(environ=environ, directory=NOWHERE) == load(environ={}, directory=NOWHERE)
    load(environ=environ, directory=NOWHERE)
    assert [record.getMessage() for record in caplog.records] == [
        f"WINDLASS_{name} is not a setting and has no effect; did you mean WINDLASS_{meant}?"
        for name, meant in (("LEASES", "LEASE"), ("MAX_MEM", "MAX_MEMORY"), ("LOGLEVEL", "LOG_LEVEL"))
    ]
