"""How rounds are interleaved, bounded and compared."""

from bench.engine.figures import Taken, ratio
from bench.engine.plan import Plan
from bench.engine.rounds import Rounds, Step
from bench.engine.store.scenarios import thirds
from bench.meters import Meter


class Script:
    """Steps that say when they ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def step(self, name: str) -> Step:
        async def run() -> Taken:
            self.ran.append(name)
            return Taken(10, 2.0)

        return Step(run)

    async def nothing(self) -> None:
        self.ran.append("|")


async def test_every_second_round_runs_a_group_backwards() -> None:
    script = Script()
    rounds = Rounds(Plan(rounds=3), Meter(), float("inf"), lambda text: None)
    group = {"ours": script.step("ours"), "theirs": script.step("theirs")}
    await rounds.run([group], after_each=script.nothing)
    assert script.ran == ["ours", "theirs", "|", "theirs", "ours", "|", "ours", "theirs", "|"]
    assert rounds.rates("theirs") == [5.0, 5.0, 5.0]


async def test_when_the_time_is_up_no_round_begins_but_the_first() -> None:
    script = Script()
    rounds = Rounds(Plan(rounds=3), Meter(), float("-inf"), lambda text: None)
    await rounds.run([{"ours": script.step("ours")}], after_each=script.nothing)
    assert rounds.done == 1
    assert "1 of 3 rounds" in rounds.notes()[0]
    assert script.ran == ["ours", "|"]


def test_a_ratio_compares_what_ran_side_by_side() -> None:
    # Both were slowed to a tenth in the second round: that says nothing about their ratio.
    assert ratio([100.0, 12.0, 90.0], [50.0, 5.0, 50.0]).rounds == [2.0, 2.4, 1.8]
    assert ratio([100.0, 12.0, 90.0], [50.0, 5.0, 50.0]).median == 2.0


def test_thirds_share_a_batch_that_crosses_their_border() -> None:
    assert thirds([(0.0, 0), (1.0, 10), (2.0, 30), (3.0, 60)], 3.0) == (10.0, 20.0, 30.0)
    assert thirds([(0.0, 0), (6.0, 60)], 3.0) == (10.0, 10.0, 10.0)  # one batch, ended after the time
    assert thirds([(0.0, 0), (1.5, 30), (3.0, 30)], 3.0) == (20.0, 10.0, 0.0)
