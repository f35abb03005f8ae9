"""The same scenes as those of the workers."""

from tests.chaos.workers.conftest import pg_scene, scene, sqlite_scene

__all__ = ["pg_scene", "scene", "sqlite_scene"]
