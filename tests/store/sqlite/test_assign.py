"""A coordinator that has nothing new to say costs the file nothing [K3]: it says it every second or two."""

from pathlib import Path

from tests.store.sqlite.kit import foreign, opened


async def test_the_same_assignment_again_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with opened(path) as store:
        term = await store.lead(1, 30)
        assert term is not None
        await store.assign(term, {1: {"a": 4, "b": 1}, 2: {"a": 3}})
        other = foreign(path)
        before = other.pragma("data_version")
        await store.assign(term, {2: {"a": 3}, 1: {"b": 1, "a": 4}})
        await store.resign(2)
        assert other.pragma("data_version") == before
        await store.assign(term, {2: {"a": 2}, 1: {"b": 1, "a": 4}})
        assert other.pragma("data_version") != before
        assert (await store.cluster_view([1, 2])).slots == {1: {"a": 4, "b": 1}, 2: {"a": 2}}
        other.close()
