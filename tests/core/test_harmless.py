"""Text from anywhere on its way to a terminal or a log [M5]."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.harmless import harmless


@pytest.mark.parametrize("text", ["", "plain text", "Grüße, 世界", "naïve – ½ €"])
def test_what_is_only_shown_stays(text: str) -> None:
    """[M5]"""
    assert harmless(text) == text
    assert harmless(text, lines=True) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", r"\x1b[2J"),  # clears the screen
        ("a\x07b\x9b", r"a\x07b\x9b"),
        ("user\u202egnp.exe", r"user\u202egnp.exe"),  # turns the direction
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("\ud800", r"\ud800"),  # half a character, which no terminal could be sent
        ("\ue000\U000e0001", r"\ue000\U000e0001"),
        ("\u0378", r"\u0378"),  # nobody has given it a meaning yet
    ],
)
def test_what_might_be_obeyed_is_spelt_out(text: str, shown: str) -> None:
    """[M5]"""
    assert harmless(text) == harmless(text, lines=True) == shown


def test_lines_stay_where_lines_are_wanted() -> None:
    """[M5] Line breaks and tabs, and nothing else: a carriage return writes over what stands there."""
    assert harmless("a\n\tb\r") == r"a\n\tb\r"
    assert harmless("a\n\tb\r", lines=True) == "a\n\tb" + r"\r"


@given(st.text())
def test_nothing_harmful_is_left(text: str) -> None:
    """[M5]"""
    left = harmless(text)
    assert not any(unicodedata.category(each)[0] == "C" or each in "\u2028\u2029" for each in left)
    assert harmless(left) == left
