"""Which errors are worth another attempt: `Retry(on=…, never=…)` [O9]."""

import json
import sys

import pytest

from windlass import Retry, Snooze
from windlass.core.retry_rules import NO_RULES, RetryRules
from windlass.errors import ConfigurationError


class Bounced(ValueError):
    """An error of the user's own."""

    class Twice(Exception):
        """One that is nested in another."""


def test_without_rules_everything_is_retried() -> None:
    assert NO_RULES.refusal(ValueError()) is None
    assert NO_RULES.refusal(SystemExit()) is None


def test_o9_never_takes_subclasses_and_says_which() -> None:
    rules = RetryRules(never=(ValueError,))
    assert rules.refusal(ValueError()) == "not retried: ValueError is in never"
    assert rules.refusal(Bounced()) == f"not retried: {__name__}.Bounced is a ValueError, in never"
    assert rules.refusal(KeyError()) is None


def test_o9_with_on_only_those_are_retried() -> None:
    rules = RetryRules(on=(OSError,))
    assert rules.refusal(TimeoutError()) is None
    assert rules.refusal(KeyError()) == "not retried: KeyError is not in on"


def test_o9_never_wins_over_on() -> None:
    rules = RetryRules(on=(OSError,), never=(FileNotFoundError,))
    assert rules.refusal(FileNotFoundError()) == "not retried: FileNotFoundError is in never"
    assert rules.refusal(ConnectionError()) is None


def test_o9_causes_are_not_looked_at() -> None:
    error = KeyError()
    error.__cause__ = ValueError()
    assert RetryRules(never=(ValueError,)).refusal(error) is None


NAMES = [f"{__name__}.Bounced.Twice", "json.JSONDecodeError", "json.decoder.JSONDecodeError"]


@pytest.mark.parametrize("name", NAMES)
def test_o9_a_class_may_be_named(name: str) -> None:
    """Also by the module that only passes it on, and where it is nested in another class."""
    rules = RetryRules(never=(name,))
    with pytest.raises(ValueError, match="Expecting") as unread:
        json.loads("{")
    assert bool(rules.refusal(unread.value)) is ("json" in name)
    assert bool(rules.refusal(Bounced.Twice())) is ("json" not in name)


def test_o9_a_name_of_what_is_not_loaded_matches_nothing_and_loads_nothing() -> None:
    rules = RetryRules(never=("wave.Error", "nowhere_at_all.Error", "json.Nothing", f"{__name__}.json"))
    sys.modules.pop("wave", None)
    assert rules.refusal(ValueError()) is None
    assert "wave" not in sys.modules


def test_o9_a_policy_takes_one_class_several_or_names() -> None:
    assert Retry(on=TimeoutError).rules == RetryRules(on=(TimeoutError,))
    assert Retry(never=["ValueError", KeyError]).rules == RetryRules(never=(ValueError, KeyError))
    assert Retry(on="httpx.HTTPError").rules == RetryRules(on=("httpx.HTTPError",))
    assert Retry().rules == NO_RULES


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"never": int}, "is not an exception class"),
        ({"never": 5}, "is not an exception class"),
        ({"never": (ValueError("x"),)}, "is not an exception class"),
        ({"on": "no name"}, "is not the name"),
        ({"on": "Bounced"}, "write its module, too: 'module.Bounced'"),
        ({"on": "len"}, "write its module"),
        ({"on": Snooze}, "Snooze says itself how a run ends"),
        ({"on": (OSError, KeyError), "never": KeyError}, "KeyError is in both"),
        ({"never": KeyError, "after": "5s"}, "belong to a task's policy"),
        ({"on": ()}, "leave on= out"),
        ({"never": []}, "leave never= out"),
    ],
)
def test_o9_what_is_wrong_is_refused_and_named(options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=r"Retry\(") as refused:
        Retry(**options)  # type: ignore[arg-type]
    assert said in str(refused.value)


def test_a_policy_is_shown_as_it_is_written() -> None:
    assert repr(Retry(3, base="2s")) == "Retry(3, base=2, cap=1800, jitter=0.1)"
    assert repr(Retry(2, never=(OSError, "httpx.ReadError"))).endswith("never=(OSError, httpx.ReadError))")
    assert repr(Retry(factor=4)) == "Retry(5, base=5, cap=1800, factor=4, jitter=0.1)"
    assert repr(Retry(4, waits=["1m", 2.5], jitter=0)) == "Retry(4, waits=[60, 2.5], jitter=0)"
    assert repr(Retry(after="10s")) == "Retry(after=10)"
