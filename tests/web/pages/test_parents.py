"""Parents on the pages and in the API: parts that are tried again are told of on their parent [M4] [P10]."""

from html import unescape
from types import SimpleNamespace

import pytest

from tests.conformance.kit import Rig, failure
from tests.web.kit import rigged, visiting
from tests.web.pages.kit import Html
from windlass import Windlass
from windlass.core.states import Kind
from windlass.operations import parents
from windlass.operations.operation import Ops
from windlass.operations.parents import show_parent
from windlass.operations.principal import Principal, Role

ERROR = "ValueError: not <yet>"


async def _retrying(rig: Rig) -> int:
    """A parent of three parts: the second will be tried again."""
    worker = await rig.worker()
    id = await rig.parent(worker, 3)
    well, again, _ = await rig.claim(worker)
    await rig.finish(worker, well)
    await rig.finish(worker, again, Kind.RETRY, delay=3600, error=failure("not <yet>"))
    await rig.store.promote()
    return id


async def test_m4_a_parent_tells_which_parts_are_tried_again(any_app: Windlass) -> None:
    """[M4] How often, and what the last one failed with."""
    async with rigged(any_app) as rig:
        id = await _retrying(rig)
    told = {"parts": 1, "tries": 1, "error": ERROR, "text": "1 part retrying (1 try)"}
    async with visiting(any_app) as visitor:
        parent = (await visitor.get(f"/api/parents/{id}")).json()
        (listed,) = (await visitor.get("/api/parents")).json()["parents"]
        job = (await visitor.get(f"/api/jobs/{id}")).json()
        parts = (await visitor.get(f"/api/parents/{id}/parts")).json()["parts"]
        assert parent["retrying"] == listed["retrying"] == job["parent"]["retrying"] == told
        assert [(part["state_text"], part["error"]) for part in parts][1] == ("retrying (1 try)", ERROR)
        for path in (f"/parents/{id}", "/parents", f"/jobs/{id}"):
            page = (await visitor.get(path)).text
            assert "1 part retrying (1 try)" in page, path
            assert ERROR not in page, f"{path}: as markup"
            assert ERROR in unescape(page), path
        strip = Html((await visitor.get(f"/parents/{id}")).text)
    cells = [each["title"] for each in strip.all("i") if "title" in each]
    assert cells == ["part 0: succeeded", f"part 1: retrying (1 try): {ERROR}", "part 2: running"]


async def test_p10_a_rate_is_that_of_the_last_minute(
    any_app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since the split at first; between readings, once there are two."""
    async with rigged(any_app) as rig:
        worker = await rig.worker()
        id = await rig.parent(worker, 4)
        ops = Ops(any_app, rig.store, Principal("reader", Role.READ))
        split = (await rig.parent_record(id)).created_at
        told = []
        for after, well in ((100, 1), (120, 1), (220, 0)):
            if well:
                await rig.finish(worker, await rig.claim(worker, limit=1))
                await rig.store.promote()
            monkeypatch.setattr(parents, "time", SimpleNamespace(time=lambda at=split + after: at))
            told.append((await show_parent(ops, id)).progress.per_second)
        assert told == [0.1, 0.5, 0.0]
