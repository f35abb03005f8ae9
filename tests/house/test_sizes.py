"""What has been made small stays so."""

from tests.house.sizes import files_that_name


def test_a_setting_that_is_only_kept_and_shown_is_one_entry() -> None:
    """Its field, a migration of each store, and its use."""
    assert files_that_name() <= 4
