"""Trouble is told when it begins, now and then while it lasts, and when it is over."""

import logging

import pytest

from windlass.complaints import EVERY, Complaints
from windlass.testing import Clock

logger = logging.getLogger("windlass.test")


@pytest.fixture
def clock() -> Clock:
    return Clock(1000.0)


@pytest.fixture
def complaints(clock: Clock, caplog: pytest.LogCaptureFixture) -> Complaints:
    caplog.set_level("INFO")
    return Complaints(logger, clock=clock)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{record.levelname} {record.getMessage()}" for record in caplog.records]


def test_an_outage_takes_a_line_every_ten_seconds(
    complaints: Complaints, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(25):
        complaints.told("beats", "no beat: %s", "away")
        clock.advance(1.0)
    complaints.over("beats")
    complaints.over("beats")
    assert said(caplog) == [
        "WARNING no beat: away",
        "WARNING no beat: away (and 9 times more since the last such line)",
        "WARNING no beat: away (and 9 times more since the last such line)",
        "INFO beats: all is well again, after 25 failures in 25.0 s",
    ]


def test_kinds_are_told_apart(complaints: Complaints, caplog: pytest.LogCaptureFixture) -> None:
    complaints.told("beats", "no beat")
    complaints.told("claims", "no claim")
    complaints.over("claims")
    assert said(caplog) == [
        "WARNING no beat",
        "WARNING no claim",
        "INFO claims: all is well again, after 1 failures in 0.0 s",
    ]


def test_what_comes_and_goes_fills_the_log_no_faster(
    complaints: Complaints, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        complaints.told("beats", "no beat")
        complaints.over("beats")
        clock.advance(EVERY / 10)
    assert len(said(caplog)) == 4


def test_trouble_that_began_in_silence_is_told_when_it_stays(
    complaints: Complaints, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    complaints.told("beats", "no beat")
    complaints.over("beats")
    complaints.told("beats", "no beat")
    clock.advance(EVERY)
    complaints.told("beats", "no beat")
    assert said(caplog)[2:] == ["WARNING no beat (and 1 times more since the last such line)"]
