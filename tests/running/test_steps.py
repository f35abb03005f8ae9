"""Steps of one run, without a worker [W1]."""

import threading
from contextlib import suppress
from typing import Any, cast

from windlass.running.port import Port
from windlass.running.steps import Steps, Suspended
from windlass.store.records import DEFAULT_OPTIONS, ClaimedJob


class Slow(dict[str, int]):
    """Whoever looks something up lets another one look it up, too, if he can."""

    def __init__(self) -> None:
        super().__init__()
        self._both = threading.Barrier(2)

    def get(self, key: str, default: Any = None) -> Any:
        found = super().get(key, default)
        with suppress(threading.BrokenBarrierError):
            self._both.wait(0.2)
        return found


def test_w1_two_threads_of_a_handler_never_share_the_name_of_a_step() -> None:
    """One of them would be given what the function of the other returned."""
    job = ClaimedJob(1, 1, 1, 1, "t", "{}", "q", 2, 1, 0, DEFAULT_OPTIONS, 0.0)
    steps = Steps(job, cast(Port, None))
    steps._used = Slow()
    names: list[str] = []
    threads = [threading.Thread(target=lambda: names.append(steps.numbered("fetch"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(names) == ["fetch", "fetch#2"]


def test_w2_a_run_that_waits_twice_for_one_signal_names_it_once() -> None:
    """The names of its steps are numbered; that of the signal is not."""
    assert Suspended(1.0, ("wait:approved", "wait:approved#2", "nap")).signals == ("approved",)
