"""For the tests of your own code: jobs in memory, a clock you move by hand, and assertions.

    from windlass.testing import Clock, assert_enqueued, assert_not_enqueued

    def test_signup_sends_a_welcome():
        with app.testing():
            sign_up("a@b.c")
            assert_enqueued(app, send, "a@b.c", template="welcome", queue="mail")

`app.testing()` swaps the app's store for an empty one in memory until the block ends; nothing reaches the
real database. Jobs wait there until you run them:

    with app.testing() as kit:
        send.using(delay="5m").enqueue("a@b.c", template="welcome")
        assert not kit.drain().succeeded
        kit.clock.advance("5m")
        assert len(kit.drain().succeeded) == 1

With `app.testing(inline=True)` each job runs as soon as it is enqueued, where it is enqueued; what its
handler raises comes out of `enqueue`, and jobs with a delay still wait for the clock.

`kit.drain(advance=True)` moves the clock itself, to whatever waits; `kit.drain(advance="1d")` by a day, with
the schedules that fire on the way. What a job raised comes out of `drain`, unless it says raises=False.

All of it works in async tests just the same: `with` or `async with`, `await send.aenqueue(...)`, `await
kit.adrain()`. The assertions are plain functions in both worlds. With pytest, the fixture `jobs` is the kit
of a test; see `pytest_windlass`.
"""

from windlass.testing.assertions import assert_enqueued, assert_not_enqueued, enqueued
from windlass.testing.clock import Clock
from windlass.testing.draining import Ran
from windlass.testing.mode import TestMode

__all__ = ["Clock", "Ran", "TestMode", "assert_enqueued", "assert_not_enqueued", "enqueued"]
