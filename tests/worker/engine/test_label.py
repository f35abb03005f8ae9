"""What a worker is called: `{prefix}-worker-{version}-{id}` [K7]."""

import re
import socket

import pytest

from tests.worker.line import Line, until_it_is
from windlass import Windlass
from windlass.worker.engine.label import make_label


def test_k7_the_parts_of_a_label() -> None:
    """[K7] No prefix: the host. No version: none. The id is 4 hex digits."""
    assert re.fullmatch(r"shop-worker-1\.4-[0-9a-f]{4}", make_label("shop", "1.4"))
    assert re.fullmatch(r"shop-worker-[0-9a-f]{4}", make_label("shop"))
    assert re.fullmatch(rf"{re.escape(socket.gethostname())}-worker-[0-9a-f]{{4}}", make_label(" ", " "))


async def test_k7_a_label_outlives_an_identity(wired: Windlass, line: Line) -> None:
    """[K7] [C5] It names the process, not the worker: after a lost lease the id is new and the label is
    not."""
    async with wired.worker(["default"]):
        await until_it_is(lambda: _count(line), 1)
        (before,) = await line.workers()
        await line.retire(before.id)
        await until_it_is(lambda: _changed(line, before.id), True)
        (after,) = await line.workers()
        assert after.label == before.label


async def _count(line: Line) -> int:
    return len(await line.workers())


async def _changed(line: Line, before: int) -> bool:
    return [worker.id for worker in await line.workers()] not in ([], [before])


async def test_k7_labels_come_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """[K7] The environment counts for more than the code."""
    monkeypatch.setenv("WINDLASS_LABEL_VERSION", "2.0")
    with Windlass("sqlite:///:memory:", label_prefix="shop", label_version="1.0") as app:
        assert re.fullmatch(r"shop-worker-2\.0-[0-9a-f]{4}", app.worker(["default"])._label)
