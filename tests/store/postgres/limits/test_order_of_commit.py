"""Jobs of an ordering key have their turns in the order in which they are committed [F6]."""

from collections.abc import Callable

import asyncpg
import pytest

from tests.store.postgres.kit import Base, Session

LINE = "SELECT array_agg(task ORDER BY turn) FROM windlass.held WHERE gate = $1"


async def line(base: Base) -> list[str]:
    """Who stands in line, by task."""
    found: list[str] | None = await base.look.value(LINE, f"order:{base.queue}/k")
    return found or []


async def add(session: Session, *tasks: str) -> None:
    for task in tasks:
        await session.enqueue(task, ordering_key="k")


async def test_who_commits_first_goes_first(base: Base) -> None:
    """[F6] However early the others were inserted; those of one transaction stay in their order."""
    await base.lane()
    one, two = await base.sessions(2)
    await one.begin()
    await add(one, "1", "2")
    await two.begin()
    await add(two, "3")
    await add(one, "4")
    await two.commit()
    await add(base.look, "5")
    await one.commit()
    assert await line(base) == ["3", "5", "1", "2", "4"]


async def test_what_is_gone_by_then_draws_no_turn(base: Base) -> None:
    """[F6] Undone in the same transaction, by a savepoint or by one that takes its place [E6]."""
    await base.lane()
    (session,) = await base.sessions(1)
    await session.begin()
    await add(session, "1")
    await session.run("SAVEPOINT s")
    await add(session, "2")
    await session.run("ROLLBACK TO s")
    await session.enqueue("3", ordering_key="k", unique_key=base.queue)
    await session.enqueue("4", ordering_key="k", unique_key=base.queue, on_conflict="replace")
    await session.commit()
    assert await line(base) == ["1", "4"]


async def test_a_prepared_transaction_has_drawn_its_turn(base: Base) -> None:
    """[F6] What is prepared cannot draw any more: its place is that of the moment it was prepared."""
    await base.lane()
    await add(base.look, "0")  # who comes to an empty line calls, and who calls cannot be prepared
    (session,) = await base.sessions(1)
    await session.begin()
    await session.run("SET LOCAL windlass.notify = off")
    await add(session, "1")
    await session.run(f"PREPARE TRANSACTION '{base.queue}'")
    await add(base.look, "2")
    await base.look.run(f"COMMIT PREPARED '{base.queue}'")
    assert await line(base) == ["0", "1", "2"]


async def test_a_producer_needs_no_rights_for_it(alone: Base, role: Callable[[str | None], str]) -> None:
    """[F6] The turn is drawn at commit, when nobody's function runs any more."""
    await alone.lane()
    session = await alone.session(role("producer"))
    await add(session, "1")
    assert await line(alone) == ["1"]
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await session.run("SELECT FROM windlass.held")


@pytest.mark.parametrize("when", ["before", "after", "twice", "in a savepoint"])
async def test_constraints_that_are_checked_at_once_do_not_disturb_the_order(base: Base, when: str) -> None:
    """[F6] [S2] SET CONSTRAINTS ALL IMMEDIATE, as frameworks say it, drew the turns long before COMMIT."""
    await base.lane()
    (session,) = await base.sessions(1)
    await session.begin()
    if when == "before":
        await session.run("SET CONSTRAINTS ALL IMMEDIATE")
    await add(session, "1", "2")
    if when == "in a savepoint":
        await session.run("SAVEPOINT s")
    if when != "before":
        await session.run("SET CONSTRAINTS ALL IMMEDIATE")
    await add(session, "3")
    await add(base.look, "4")
    if when == "in a savepoint":
        await session.run("ROLLBACK TO s")
        await add(session, "3")
    if when == "twice":
        await session.run("SET CONSTRAINTS ALL IMMEDIATE")
        await session.run("SET CONSTRAINTS ALL DEFERRED")
        await add(base.look, "5")
    await session.commit()
    assert await line(base) == [*(["4", "5"] if when == "twice" else ["4"]), "1", "2", "3"]


ADD = """
SELECT windlass.enqueue_many($1, 2::smallint, ARRAY['1', '2', '3'], array_fill('{}'::text, ARRAY[3]),
                             array_fill('{"ordering_key": "k"}'::text, ARRAY[3]), p_own => $2)
"""


@pytest.mark.parametrize("own", [True, False])
async def test_jobs_of_a_call_that_commits_right_after_are_written_once(alone: Base, own: bool) -> None:
    """[F6] Their turns are drawn just before the commit anyway; those that anybody may commit later draw
    theirs once more."""
    await alone.lane()
    (session,) = await alone.sessions(1)
    await session.begin()
    before = await session.value("SELECT nextval('windlass.held_turn')")
    await session.value(ADD, alone.queue, own)
    await add(session, "4")
    await session.commit()
    assert await line(alone) == ["1", "2", "3", "4"]
    turns = await alone.look.value("SELECT array_agg(turn ORDER BY turn) FROM windlass.held")
    first = before + 2  # the note of their list is before them
    assert (turns[:3] == [first, first + 1, first + 2]) is own
