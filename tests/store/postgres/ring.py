"""The ring of segments, turned step by step [rule 7]."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from tests.store.postgres.kit import Base, Session


class Ring:
    """One rotation at a time, by hand. Each step is a transaction of its own unless the session is in one."""

    def __init__(self, base: Base, session: Session) -> None:
        self._base = base
        self.session = session
        self.victim = -1
        self.number = -1

    async def lanes(self) -> list[int]:
        """Every lane, in the order in which they are touched."""
        return [row[0] for row in await self._base.look.rows("SELECT id FROM windlass.lane ORDER BY id")]

    async def begin(self, *skip: int) -> int | None:
        """Switch to an empty segment (unless some are to be skipped) and choose a victim."""
        row = await self.session.row("SELECT * FROM windlass.rotation_begin(true, $1)", list(skip))
        victim: int | None = row["victim"]
        self.victim = -1 if victim is None else victim
        self.number = row["turn"]
        return victim

    async def seal(self) -> str | None:
        """Who can still write into the victim, in words."""
        who: str | None = await self.session.value("SELECT windlass.rotation_seal($1)", self.number)
        return who

    async def touch(self, lane: int) -> bool:
        """Carry a lane's cursor out of the victim."""
        return bool(await self.session.value("SELECT windlass.rotation_touch($1, $2)", self.number, lane))

    async def judge(self, limit: int = 1000) -> int:
        """Decide what is carried; remove finished rows whose evidence goes. 0: done."""
        row = await self.session.row("SELECT * FROM windlass.rotation_judge($1, $2)", self.number, limit)
        return int(not row["done"])

    async def move(self, lane: int, after: int = 0, limit: int = 1000) -> tuple[int, int | None]:
        """One step of moving rows: how many, and where to go on."""
        sql = "SELECT * FROM windlass.rotation_move($1, $2, $3, $4)"
        row = await self.session.row(sql, self.number, lane, after, limit)
        assert row["offered_again"] == 0, "no rule allows a row that is neither waiting nor covered"
        return row["moved"], row["next_after"]

    async def move_failures(self) -> None:
        """Move the failures of jobs that have not ended."""
        await self.session.run("SELECT windlass.rotation_move_failures($1, 0, 100000)", self.number)

    async def reclaim(self) -> int:
        """Carry what runs, and empty the victim."""
        row = await self.session.row("SELECT * FROM windlass.rotation_reclaim($1, 0)", self.number)
        return int(row["moved"])

    async def steps(self, limit: int, *skip: int) -> AsyncGenerator[str, None]:
        """One rotation in the smallest steps, each named after it was taken."""
        assert await self.begin(*skip) is not None
        yield "begin"
        assert await self.seal() is None
        yield "seal"
        for lane in await self.lanes():
            await self.touch(lane)
            yield "touch"
        while await self.judge(limit):
            yield "judge"
        yield "judge"
        for lane in await self.lanes():
            after: int | None = 0
            while after is not None:
                _, after = await self.move(lane, after, limit)
                yield "move"
        await self.move_failures()
        yield "failures"
        await self.reclaim()
        yield "reclaim"

    async def prepare(self) -> int:
        """Every step up to the last one, and the victim's number."""
        async with aclosing(self.steps(1000)) as steps:
            async for step in steps:
                if step == "failures":
                    break
        return self.victim

    async def turn(self, times: int = 1, *skip: int) -> None:
        """Reclaim one segment after another; eight times is once around."""
        for _ in range(times):
            async for _ in self.steps(1000, *skip):
                pass
