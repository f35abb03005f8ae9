"""Names, durations, sizes and routes: how people write them, and what they mean."""

import sys
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import Windlass
from windlass.core.durations import seconds, size
from windlass.core.names import check_name, derive_name
from windlass.core.retry import unknown_delay
from windlass.core.routing import Routes
from windlass.errors import ConfigurationError


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("500ms", 0.5),
        ("5s", 5),
        ("10m", 600),
        ("1h30m", 5400),
        ("1.5h", 5400),
        (" 2d ", 172800),
        ("1w", 604800),
        ("30", 30),
        (0, 0),
        (2.5, 2.5),
        (timedelta(minutes=2), 120),
        ("1h 5s", 3605),
    ],
)
def test_spans_of_time(written: Any, meant: float) -> None:
    assert seconds(written) == meant


@pytest.mark.parametrize(
    "written",
    [
        "",
        "5 apples",
        "s",
        "-5s",
        "1h-",
        "5S",
        -1,
        True,
        None,
        "1e3s",
        float("inf"),
        "9" * 400,
        "9" * 400 + "d",
        10**400,
    ],
)
def test_what_is_no_span_of_time_says_how_to_write_one(written: Any) -> None:
    with pytest.raises(ValueError, match="span of time"):
        seconds(written)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("256MiB", 256 * 2**20),
        ("10GiB", 10 * 2**30),
        ("5MB", 5000000),
        ("1.5kB", 1500),
        ("1KB", 1000),
        (7, 7),
        ("12", 12),
        ("3 B", 3),
        ("1TiB", 2**40),
    ],
)
def test_sizes(written: Any, meant: int) -> None:
    assert size(written) == meant


@pytest.mark.parametrize("written", ["", "MiB", "5 mib", "-1", -1, True, "5PB", 1.5, None, "9" * 400])
def test_what_is_no_size_says_how_to_write_one(written: Any) -> None:
    with pytest.raises(ValueError, match="not a size"):
        size(written)


@pytest.mark.parametrize(
    ("module", "qualname", "name"),
    [
        ("shop.mail", "send", "shop.mail.send"),
        ("shop", "Mail.send_now", "shop.mail.send_now"),
        ("shop", "make.<locals>.send", "shop.make.send"),
        ("shop", "<lambda>", "shop.lambda"),
        ("größe", "f", "gr_e.f"),
        ("a" * 80, "send", "a" * 59 + ".send"),
    ],
)
def test_e4_a_tasks_default_name_keeps_the_rule(module: str, qualname: str, name: str) -> None:
    assert derive_name(module, qualname) == name
    check_name("task", name)


@given(st.text(min_size=1), st.text(min_size=1))
def test_e4_any_default_name_keeps_the_rule(module: str, qualname: str) -> None:
    check_name("task", derive_name(module, "f" + qualname))


def test_a_scripts_task_is_called_after_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    def send() -> None: ...

    send.__module__, send.__qualname__ = "__main__", "send"
    script = ModuleType("__main__")
    script.__file__ = "jobs/my_shop.py"
    monkeypatch.setitem(sys.modules, "__main__", script)
    assert Windlass("sqlite:///:memory:").task(send).name == "my_shop.send"


def test_two_functions_cannot_share_a_name(app: Windlass) -> None:
    def declare() -> None:
        app.task(name="mail.send")(test_spans_of_time)

    declare()
    declare()  # the same function again: its module was loaded once more
    with pytest.raises(ConfigurationError, match=r"two functions are registered as task mail\.send"):
        app.task(name="mail.send")(test_sizes)


def test_only_functions_can_be_tasks(app: Windlass) -> None:
    def generator() -> Any:
        yield 1

    things: list[Any] = [generator, 5, "send"]
    for thing in things:
        with pytest.raises(ConfigurationError, match="cannot be a task"):
            app.task(thing)


RULES = {"gh.*": "gh", "gh.import.*": "imports", "gh.ping": "fast", "mail*": "mail"}


@pytest.mark.parametrize(
    ("task", "queue"),
    [
        ("gh.sync", "gh"),
        ("gh.import.repo", "imports"),
        ("gh.ping", "fast"),
        ("gh.ping.all", "gh"),
        ("gh", "default"),
        ("mailer", "mail"),
        ("other.gh.sync", "default"),
    ],
)
def test_e5_a_task_without_a_queue_is_routed_by_prefix(task: str, queue: str) -> None:
    assert Routes(RULES).queue(task) == queue
    app = Windlass("sqlite:///:memory:", routes=RULES)
    assert app.enqueue(task).record().queue == queue


def test_e5_an_explicit_queue_beats_the_routes() -> None:
    app = Windlass("sqlite:///:memory:", routes={"*": "everything"})
    assert app.enqueue("a").record().queue == "everything"
    assert app.named("a").using(queue="own").enqueue().record().queue == "own"


@pytest.mark.parametrize("rules", [{"gh.*.x": "gh"}, {"GH.*": "gh"}, {"gh.*": "No Queue"}, {"": "gh"}])
def test_e5_a_bad_route_is_a_configuration_error(rules: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="a route is"):
        Routes(rules)


def test_o4_an_unknown_task_waits_longer_each_time_within_bounds() -> None:
    waited, delays = 0.0, []
    for _ in range(8):
        delays.append(unknown_delay(waited))
        waited += delays[-1]
    assert delays == [10, 10, 20, 40, 80, 160, 300, 300]
