"""Apps for the tests of this folder."""

from tests.apps import any_app, app, no_settings_from_outside, url
from tests.worker.lines import line, wired
from tests.worker.scene import often, scene
from tests.worker.worker_sessions import handlers

__all__ = ["any_app", "app", "handlers", "line", "no_settings_from_outside", "often", "scene", "url", "wired"]
