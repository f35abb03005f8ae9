"""What has been made small stays so. Each bound is a ratchet: a change that makes a figure smaller lowers its
bound, and one that needs more room raises it in the same commit, with the reason there."""

from tests.house import sizes, walk

LINES = 42_420
"""Lines of Python in the engine. The aim is 38,000."""
MODULES = 19
"""Modules that a job passes on PostgreSQL. The aim is 15."""


def test_a_setting_that_is_only_kept_and_shown_is_one_entry() -> None:
    """Its field, a migration of each store, and its use."""
    assert sizes.files_that_name() <= 4


def test_an_option_of_a_job_is_one_entry() -> None:
    """Its field, its place in Options and in windlass.enqueue; and three files that use it."""
    assert sizes.files_that_name(sizes.OPTION) <= 6


def test_the_engine_grows_no_further() -> None:
    lines = sizes.lines_of_code()
    assert lines <= LINES, f"{lines:,} lines: leave something out, or say in this commit why it needs them"
    assert lines > LINES - 200, f"{lines:,} lines: lower LINES, so that they stay away"


def test_a_job_passes_few_modules() -> None:
    assert len(walk.passed()) <= MODULES


def test_no_class_stands_on_more_than_two_of_ours() -> None:
    above, name = sizes.superclasses()[0]
    assert above <= 2, name


def test_no_folder_is_full() -> None:
    files, folder = sizes.largest_folder()
    assert files <= 25, folder


def test_docstrings_begin_with_what_they_mean() -> None:
    assert sizes.riddles() == []
