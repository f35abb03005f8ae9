"""Handlers that are not what they seem: with attributes of their own, or raising no Exception [O1]."""

import logging

import pytest

from windlass import Retry, Windlass
from windlass.errors import ConfigurationError


class Panic(BaseException):
    """As raised by extension modules that know no better."""


def test_attributes_of_the_function_do_not_become_the_tasks() -> None:
    """[O1] A decorator such as tenacity's leaves one called `retry`."""

    def add(a: int) -> int:
        return a + 1

    add.retry = object()  # type: ignore[attr-defined]
    add.name = "Something Else"  # type: ignore[attr-defined]
    app = Windlass("sqlite:///:memory:")
    task = app.task(name="math.add", retry=Retry(2, base=0))(add)
    job = task.enqueue(1)
    assert app.run_until_idle().succeeded == 1
    assert (task.name, job.result(timeout=1)) == ("math.add", 2)


def test_what_is_no_exception_is_a_failed_attempt_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    """[O1] [O4] Else the job would come back for ever, uncharged."""
    caplog.set_level(logging.CRITICAL)
    app = Windlass("sqlite:///:memory:")

    @app.task(retry=Retry(2, base=0))
    def bad() -> None:
        raise Panic

    bad.enqueue()
    drained = app.run_until_idle()
    assert (drained.retried, drained.dead) == (1, 1)


def test_one_name_is_not_a_list_of_queues() -> None:
    """[K1] Else "mail" would be the queues m, a, i and l."""
    with pytest.raises(ConfigurationError, match=r"queues=\['mail'\]"):
        Windlass("sqlite:///:memory:").run_until_idle(queues="mail")
