"""examples/reshard: nothing is switched before everything has arrived, and a redrive brings the rest."""

import pytest

from examples.reshard.tasks import SHARDS, new_shard
from tests.examples.running import run_example


@pytest.mark.slow
def test_p9_the_finalizer_refuses_until_a_redrive_has_brought_the_rest(database: dict[str, str]) -> None:
    lines = run_example("reshard", "--accounts", "1000", **database)
    parts = [line.split(maxsplit=2)[2] for line in lines if line.startswith("part ")]
    assert (
        parts
        == ["succeeded, 32 of 32 shards"] * 2 + ["dead, 6 of 32 shards"] + ["succeeded, 32 of 32 shards"] * 5
    )
    found = {line.split()[0]: line for line in lines if not line.startswith("part ")}
    assert "of 26 shards, from shard 70 on, are not in the new table" in found["refused"]
    assert "2 run again: the part from its checkpoint" in found["mended"]
    assert found["switched"] == "switched  to account_by_owner with 1,000 accounts"


def test_all_accounts_of_an_owner_lie_together() -> None:
    assert new_shard("owner 7") == new_shard("owner 7")
    assert {new_shard(f"owner {number}") for number in range(10_000)} == set(range(SHARDS))
    with pytest.raises(ValueError, match="without an owner"):
        new_shard(None)
