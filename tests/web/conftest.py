"""Apps for the tests of this folder."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.apps import any_app, app, no_settings_from_outside, url
from tests.web.kit import visiting
from windlass import Windlass

__all__ = ["any_app", "app", "no_settings_from_outside", "url"]


@pytest.fixture
async def visitor(app: Windlass) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody at this machine, where there are no credentials: they may do everything."""
    async with visiting(app) as visitor:
        yield visitor
