"""Trouble is told when it begins, now and then while it lasts, and when it is over."""

import logging

import pytest

from windlass.running.outages import EVERY, OutageLog
from windlass.testing import Clock

logger = logging.getLogger("windlass.test")


@pytest.fixture
def clock() -> Clock:
    return Clock(1000.0)


@pytest.fixture
def outages(clock: Clock, caplog: pytest.LogCaptureFixture) -> OutageLog:
    caplog.set_level("INFO")
    return OutageLog(logger, clock=clock)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{record.levelname} {record.getMessage()}" for record in caplog.records]


def test_an_outage_takes_a_line_every_ten_seconds(
    outages: OutageLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(25):
        outages.failed("heartbeats", "no heartbeat: %s", "away")
        clock.advance(1.0)
    outages.recovered("heartbeats")
    outages.recovered("heartbeats")
    assert said(caplog) == [
        "WARNING no heartbeat: away",
        "WARNING no heartbeat: away (and 9 times more since the last such line)",
        "WARNING no heartbeat: away (and 9 times more since the last such line)",
        "INFO heartbeats: recovered after 25 failures in 25.0 s",
    ]


def test_kinds_are_told_apart(outages: OutageLog, caplog: pytest.LogCaptureFixture) -> None:
    outages.failed("heartbeats", "no heartbeat")
    outages.failed("claims", "no claim")
    outages.recovered("claims")
    assert said(caplog) == [
        "WARNING no heartbeat",
        "WARNING no claim",
        "INFO claims: recovered after 1 failure in 0.0 s",
    ]


def test_what_comes_and_goes_fills_the_log_no_faster(
    outages: OutageLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        outages.failed("heartbeats", "no heartbeat")
        outages.recovered("heartbeats")
        clock.advance(EVERY / 10)
    assert len(said(caplog)) == 4


def test_trouble_that_began_in_silence_is_told_when_it_stays(
    outages: OutageLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    outages.failed("heartbeats", "no heartbeat")
    outages.recovered("heartbeats")
    outages.failed("heartbeats", "no heartbeat")
    clock.advance(EVERY)
    outages.failed("heartbeats", "no heartbeat")
    assert said(caplog)[2:] == ["WARNING no heartbeat (and 1 time more since the last such line)"]
