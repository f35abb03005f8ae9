"""Timelines: what happened, the latest first [M2]."""

import itertools
from typing import get_type_hints

import msgspec
import pytest

from tests.conformance.kit import Rig, unsaid
from windlass.store.measures import kept
from windlass.store.protocol import Store
from windlass.store.records import Event, EventRecord, Report

SOURCE = 78
_numbers = itertools.count(1)

HOSTILE = [
    "'; DROP TABLE windlass_event; --",
    "<script>alert(1)</script>",
    '{"json": [1, "\\u0000"]}',
    "%s %(x)s {0} \\ \t \r\n \x1b[31m \u202e\u2028 \U0001f4a3 é \ufffd",
    "{}", "[]", '"', "\\N", "null", "$1",
]  # fmt: skip


async def tell(store: Store, *events: Event) -> None:
    """Tell what has not been told before."""
    await store.report(SOURCE, next(_numbers), Report(events=events))


def event(text: str, at: float = 1000.0, **about: object) -> Event:
    """A retry, in words."""
    return msgspec.convert({"at": at, "kind": "retry", "text": text, **about}, Event)


def words(found: list[EventRecord]) -> list[str]:
    """What was told."""
    return [one.text for one in found]


async def test_an_event_comes_out_as_it_went_in(store: Store) -> None:
    """[M2] Every field of it, and those that were left out."""
    at = await store.now()
    full = Event(
        at=at, kind="dead", text="boom", job=2**62 + 1, queue="mail", task="send", worker="w-1", attempt=3,
        ms=12.5,
    )  # fmt: skip
    assert unsaid(full) == set()
    bare = Event(at=at, kind="leads")
    await tell(store, full, bare)
    second, first = await store.events()
    assert first == EventRecord(id=first.id, **msgspec.structs.asdict(full))
    assert second == EventRecord(id=second.id, **msgspec.structs.asdict(bare))
    assert second.id > first.id


async def test_the_latest_come_first_in_pages(store: Store) -> None:
    """[M2] In the order in which they were told; `before` goes on where a page ended."""
    now = await store.now()
    for n in range(3):
        await tell(store, event(f"{n}a", now), event(f"{n}b", now - 5))
    page = await store.events(limit=4)
    assert words(page) == ["2b", "2a", "1b", "1a"]
    assert words(await store.events(limit=4, before=page[-1].id)) == ["0b", "0a"]
    assert await store.events(before=1) == []
    assert await store.events(limit=0) == []


async def test_of_one_job_or_one_queue(store: Store) -> None:
    """[M2]"""
    now = await store.now()
    await tell(
        store,
        event("1 in a", now, job=1, queue="a"),
        event("2 in a", now, job=2, queue="a"),
        event("none in b", now, queue="b"),
        event("1 in a again", now, job=1, queue="a"),
        event("nothing in particular", now),
    )
    of_one = await store.events(job=1)
    assert words(of_one) == ["1 in a again", "1 in a"]
    assert words(await store.events(job=1, before=of_one[0].id)) == ["1 in a"]
    assert words(await store.events(queue="a", limit=2)) == ["1 in a again", "2 in a"]
    assert words(await store.events(queue="b")) == ["none in b"]
    assert await store.events(job=3) == await store.events(queue="c") == []


async def test_the_same_report_again_adds_no_events(store: Store) -> None:
    """[M2]"""
    report = Report(events=[event("once", await store.now())])
    for _ in range(2):
        await store.report(SOURCE + 1, 1, report)
    assert words(await store.events()) == ["once"]


async def test_events_outlive_the_rollup_and_the_jobs(rig: Rig) -> None:
    """[M2] They have their own time: 7 days."""
    store = rig.store
    await tell(store, event("old", await store.now(), job=7, queue="a"))
    await rig.clock.advance(4 * 86400)
    await tell(store, event("young", await store.now()))
    await store.rotate(force=True)
    await store.expire()
    assert (await store.rollup()).removed == 0
    assert words(await store.events()) == ["young", "old"]
    await rig.clock.advance(4 * 86400)
    assert (await store.rollup()).removed == 1
    assert words(await store.events()) == ["young"]
    assert await store.events(job=7) == await store.events(queue="a") == []
    await rig.clock.advance(4 * 86400)
    (last,) = await store.events()
    await store.rollup()
    await tell(store, event("new", await store.now()))
    (first,) = await store.events()
    assert first.id > last.id, "a number was used twice"


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_text_is_kept_as_text(store: Store, text: str) -> None:
    """[M5] Nothing in a text is obeyed, and nothing is lost of it."""
    now = await store.now()
    await tell(store, event(text, now, queue=text, task=text, worker=text), event("next", now))
    _, found = await store.events()
    assert (found.text, found.queue, found.task, found.worker) == (text, text, text, text)
    assert words(await store.events(queue=text)) == [text]


@pytest.mark.parametrize(("text", "made"), [("x" * 5000, "x" * 500), ("a\0b", "a\ufffdb"), ("\ud800b", "?b")])
async def test_words_that_cannot_be_kept_are_made_fit(store: Store, text: str, made: str) -> None:
    """[M2] One such event must not keep its process from reporting anything ever after."""
    await tell(store, Event(at=await store.now(), kind="retry", text=text))
    assert words(await store.events()) == [made]


class Noted(Event, frozen=True, kw_only=True):
    """An event with a text that there is not yet."""

    note: str | None = None


def test_every_text_of_an_event_is_made_fit() -> None:
    """[M2] Also one that is added some day: texts are known by their type, not by a list."""
    texts = [name for name, kind in get_type_hints(Noted).items() if kind in (str, str | None)]
    assert {"text", "note"} < set(texts)
    told = msgspec.structs.replace(Noted(at=1.0, kind="retry"), **dict.fromkeys(texts, "a\0\ud800b"))
    assert [getattr(kept(told, 2.0), name) for name in texts] == ["a\ufffd?b"] * len(texts)


async def test_no_event_lies_in_the_future(store: Store) -> None:
    """[M2] Whatever the clock of a process says: it would outlive all others."""
    await tell(store, event("early", await store.now() + 5000))
    (found,) = await store.events()
    assert found.at <= await store.now()
