"""The page of budgets says what was used, and of a budget with a key that each has a bucket [F1]."""

import pytest

from tests.web.kit import visiting
from windlass import Windlass


@pytest.mark.parametrize(
    ("key", "cap", "said"),
    [
        (None, "5000/day", "1 of 5,000"),
        ("tenant", "5000/day", "up to 5,000 each"),
        ("tenant", None, "by tenant"),
    ],
)
async def test_f1_a_cap_of_a_key_is_that_of_each(
    any_app: Windlass, key: str | None, cap: str | None, said: str
) -> None:
    budget = any_app.budget("api", rate="10/s", burst=5, key=key, cap=cap)
    async with any_app, visiting(any_app) as visitor:
        await budget.aacquire(1, key="acme") if key else await budget.aacquire(1)
        page = (await visitor.get("/budgets")).text
    cell = " ".join(page.split('data-name="used"')[1].split("</td>")[0].split())
    assert said in cell
    assert ("acme:" in cell) is (key is not None)
