"""What has been made small stays so."""

from tests.house.sizes import OPTION, files_that_name


def test_a_setting_that_is_only_kept_and_shown_is_one_entry() -> None:
    """Its field, a migration of each store, and its use."""
    assert files_that_name() <= 4


def test_an_option_of_a_job_is_one_entry() -> None:
    """Its field, its place in Options and in windlass.enqueue; and three files that use it."""
    assert files_that_name(OPTION) <= 6
