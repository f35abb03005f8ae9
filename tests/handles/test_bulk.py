"""`app.jobs(...)`: many jobs by filter, for synchronous and asynchronous code [O6]."""

from typing import Any

import pytest

from windlass import Retry, Windlass
from windlass.errors import InvalidName, InvalidOption
from windlass.operations.walks import Count


def test_the_app_offers_it_by_filter(any_app: Windlass) -> None:
    for _ in range(3):
        any_app.named("t").using(delay="1h", tags=["red"]).enqueue()
    any_app.enqueue("other", "needle")
    assert any_app.jobs(text="needle").count() == Count(1)
    red = any_app.jobs(tag="red", state="scheduled")
    assert red.count() == Count(3)
    assert red.retry(batch=2) == {"retried": 3}
    assert red.count() == Count(0)
    assert any_app.jobs(task="t").cancel() == {"cancelled": 3}
    assert any_app.jobs().delete() == {"deleted": 4}
    assert repr(red) == "<Jobs state=scheduled tag=red>"


def test_by_what_jobs_died_of(any_app: Windlass) -> None:
    @any_app.task(name="fails", retry=Retry(1))
    def fails(kind: str) -> None:
        raise {"key": KeyError, "value": ValueError}[kind](kind)

    fails.enqueue_many([("key",), ("value",), ("value",)])
    any_app.run_until_idle()
    assert any_app.jobs(error="ValueError").count() == Count(2)
    assert any_app.jobs(error="ValueError", state="succeeded").count() == Count(0)
    assert any_app.jobs(error="KeyError").delete() == {"deleted": 1}
    assert any_app.jobs(error="KeyError").count() == Count(0)
    assert any_app.jobs(state="dead").count() == Count(2)


async def test_the_app_offers_it_to_async_code(app: Windlass) -> None:
    await app.named("t").using(delay="1h").aenqueue()
    jobs = app.jobs(queue="default")
    assert await jobs.acount() == Count(1)
    assert await jobs.aretry() == {"retried": 1}
    assert await jobs.acancel() == {"cancelled": 1}
    assert await jobs.adelete() == {"deleted": 1}


@pytest.mark.parametrize(
    ("filters", "error"),
    [
        ({"state": "failed"}, InvalidOption),
        ({"queue": "Q!"}, InvalidName),
        ({"text": "\0"}, InvalidOption),
        ({"tag": "\ud800"}, InvalidOption),
        ({"error": "\0"}, InvalidOption),
    ],
)
def test_a_filter_that_cannot_match_is_refused(app: Windlass, filters: dict[str, Any], error: type) -> None:
    with pytest.raises(error):
        app.jobs(**filters)
