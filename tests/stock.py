"""Tests that run on the stock server as well as on that of the wheel.

`pytestmark = BOTH` in a file, or `@BOTH` on a test, for those that use `pg_server` or what builds on it
(`pg_dsn`, `base`, `alone` …). Where no stock server is installed the second run is left out, and said.
"""

import pytest

BOTH = pytest.mark.parametrize(
    "pg_server",
    ["wheel_server", pytest.param("stock_server", marks=pytest.mark.stock)],
    ids=["wheel", "stock"],
    indirect=True,
)
