"""Mistakes in chunked tasks: each is told as early as it can be, with what to do about it."""

import itertools
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from windlass import NDJSON, Context, Items, Part, Ranges, Retry, Windlass
from windlass.errors import ConfigurationError, JobFailed


def test_mistakes_show_where_they_are_made(app: Windlass) -> None:
    with pytest.raises(ConfigurationError, match="part: Part"):

        @app.chunked(split=Ranges(1))  # type: ignore[arg-type]
        async def without() -> None: ...

    with pytest.raises(ConfigurationError, match="only chunked tasks"):

        @app.task
        async def with_part(part: Part) -> None: ...

    with pytest.raises(ConfigurationError, match="splits nothing"):

        @app.chunked(split=3)  # type: ignore[arg-type]
        async def three(part: Part) -> None: ...

    for wrong in ({"parallel": 0}, {"batch": 1.5}, {"tolerate": "many"}, {"batch_timeout": 0}, {"mode": "x"}):
        with pytest.raises(ConfigurationError):

            @app.chunked(split=Ranges(1), **wrong)
            async def options(part: Part) -> None: ...

    @app.chunked(split=Ranges(1))
    async def good(part: Part) -> None: ...

    with pytest.raises(ConfigurationError, match="async def"):

        @good.finalizer
        def plain(ctx: Context) -> None: ...


def test_signatures_that_cannot_work_are_refused_at_once(app: Windlass) -> None:
    """[E3] Not when all parts have run."""

    def chunked(split: Any) -> Any:
        @app.chunked(split=split)
        async def load(part: Part, path: str, n: int = 1) -> None: ...

        return load

    wrongs: list[Any] = [NDJSON, NDJSON(source="nope"), Ranges(lambda nn: 1), Items(lambda other: [])]
    for wrong in [*wrongs, lambda path: []]:
        with pytest.raises(ConfigurationError):
            chunked(wrong)
    with pytest.raises(ConfigurationError, match="finds no file"):

        @app.chunked(split=NDJSON())
        async def without(part: Part) -> None: ...

    async def final(ctx: Context, path: str, other: int) -> None: ...

    async def any_name(ctx: Context, **arguments: Any) -> None: ...

    load = chunked(NDJSON())
    with pytest.raises(ConfigurationError, match="path, n"):
        load.finalizer(final)
    load.finalizer(any_name)


def test_c6_a_batch_timeout_beyond_the_lease_is_told(app: Windlass, caplog: pytest.LogCaptureFixture) -> None:
    @app.chunked(split=Ranges(1), batch_timeout="1m")
    async def load(part: Part) -> None: ...

    with caplog.at_level(logging.WARNING, "windlass.worker"), app.worker():
        pass
    assert "batch_timeout=60 s" in caplog.text
    assert "WINDLASS_LEASE" in caplog.text


async def test_c6_one_that_the_store_says_is_told_once(
    memory: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    """[C6] Also where an operator has set it, when a worker learns of it; and again when it is changed."""

    @memory.chunked(split=Ranges(4, size=1), name="load")
    async def load(part: Part) -> None:
        async for batch in part.batches():
            await batch.done()

    async def told(timeout: float) -> int:
        await memory._store_handle().acall(lambda store: store.set_task("load", {"batch_timeout": timeout}))
        await load.aenqueue()
        caplog.clear()
        with caplog.at_level(logging.WARNING, "windlass.worker"):
            await memory.arun_until_idle()
        return caplog.text.count(f"task load has batch_timeout={timeout:g} s, which is not below the lease")

    assert await told(memory.settings.lease) == 1
    assert await told(3600.0) == 1
    assert await told(memory.settings.lease / 2) == 0


async def test_a_splitter_that_fails_is_a_failed_attempt(memory: Windlass) -> None:
    def broken() -> list[int]:
        raise OSError("no such bucket")

    @memory.chunked(split=broken, retry=Retry(1))
    async def load(part: Part) -> None: ...

    job = await load.aenqueue()
    await memory.arun_until_idle()
    with pytest.raises(JobFailed, match="no such bucket"):
        await job.aresult(timeout=1)


async def test_more_parts_than_anybody_can_want(memory: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.chunks.task.MAX_PARTS", 100)

    def numbers() -> Iterator[int]:
        return itertools.count()

    @memory.chunked(split=numbers)
    async def endless(part: Part) -> None: ...

    job = await endless.aenqueue()
    await memory.arun_until_idle()
    with pytest.raises(JobFailed, match="more than 100 parts"):
        await job.aresult(timeout=1)
