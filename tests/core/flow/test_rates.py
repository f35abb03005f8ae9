"""How people write rates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.flow.rates import per_second, rate_text


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10/s", 10), ("100/m", 100 / 60), ("5000/h", 5000 / 3600), ("10/30s", 1 / 3), ("1/1h30m", 1 / 5400),
        ("86400 / d", 1), ("5/w", 5 / 604800), ("1/ms", 1000), ("2.5/s", 2.5), (" 7 ", 7), ("0.5", 0.5),
        (10, 10), (0.25, 0.25), (0, 0), ("0/s", 0),
    ],
)  # fmt: skip
def test_read(text: str | float, rate: float) -> None:
    assert per_second(text) == pytest.approx(rate)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fast",
        "-1",
        "10/",
        "/s",
        "10/x",
        "10/0s",
        "10/s/s",
        "1e3/s",
        "10 per s",
        "inf",
        -1,
        float("nan"),
        True,
        "9" * 400,
        pytest.param(10**400, id="huge"),
    ],
)
def test_what_is_no_rate_says_how_to_write_one(text: str | float) -> None:
    with pytest.raises(ValueError, match=r"is not a rate.*(10/s|30s)"):
        per_second(text)


@pytest.mark.parametrize(
    "text", ["10/s", "1.5/s", "100/m", "5000/h", "60/h", "20/d", "1000000/s", "0/s", "12.5/m", "90.25/s"]
)
def test_as_it_was_written(text: str) -> None:
    assert rate_text(per_second(text)) == text.replace("60/h", "1/m")


@given(st.floats(1e-5, 1e6))
def test_near_what_it_is(rate: float) -> None:
    shown = rate_text(rate)
    assert "e" not in shown
    assert per_second(shown) == pytest.approx(rate, rel=0.006)


@given(st.integers(1, 10**6), st.sampled_from("smhd"))
def test_whole_numbers_come_back_as_they_are(n: int, unit: str) -> None:
    rate = per_second(f"{n}/{unit}")
    assert per_second(rate_text(rate)) == pytest.approx(rate, rel=1e-9)


@pytest.mark.parametrize(
    ("rate", "shown"),
    [
        (1.23456789, "1.23/s"),
        (0.0123456, "44.44/h"),
        (0.3456789, "20.74/m"),
        (1 / 86400, "1/d"),
        (1e-6, "0.0864/d"),
    ],
)
def test_what_is_no_plain_number_is_rounded_in_the_shortest_unit_that_holds_one(
    rate: float, shown: str
) -> None:
    assert rate_text(rate) == shown


def test_the_span_of_a_rate_is_told_with_the_rate() -> None:
    with pytest.raises(ValueError, match=r"'10/5 parsecs' is not a rate: .*5 parsecs"):
        per_second("10/5 parsecs")
