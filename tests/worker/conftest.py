"""Apps for the tests of this folder."""

from tests.apps import any_app, app, no_settings_from_outside, url
from tests.worker.lines import line, wired

__all__ = ["any_app", "app", "line", "no_settings_from_outside", "url", "wired"]
