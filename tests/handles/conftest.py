"""Apps for the tests of this folder."""

from tests.apps import any_app, app, no_settings_from_outside, url

__all__ = ["any_app", "app", "no_settings_from_outside", "url"]
