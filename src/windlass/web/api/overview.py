"""The endpoint of the overview."""

from __future__ import annotations

from typing import Final

from windlass.web.api.endpoint import Call, Nothing, Table
from windlass.web.service.shapes import Overview

overview: Final = Table("overview")


@overview.get("/overview")
async def show_overview(call: Call[Nothing, None]) -> Overview:
    """Get the health of the cluster: findings, totals, rates and recent events"""
    return await call.service.overview.get(call.principal)
