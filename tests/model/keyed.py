"""Unique keys [E6] to the full: jobs that replace others with a delay, at a gate or after other jobs, are
taken back themselves, or are remembered as the rerun of one that runs."""

from hypothesis import strategies as st

from tests.model.families import Families
from tests.model.gated import gated_wishes
from tests.model.steps import Draw, Steps, action
from tests.model.wishes import jobs_of, wishes


def keyed(machine: Steps) -> list[str]:
    """Jobs that hold a key, or held one once."""
    known = machine.model.seen.items()
    return sorted(label for label, record in known if record.options.unique_key is not None)


class Keyed(Families):
    """Producers who want one job of a kind, and the newest."""

    @action(6, theme="keys")
    def enqueue_keyed(self, data: Draw) -> None:
        """One at a time: see `alone`."""
        wish = data.draw(st.one_of(wishes(), wishes(), gated_wishes(self.late)), label="job")
        wish["unique_key"] = data.draw(st.sampled_from("xy"), label="key")
        wish["on_conflict"] = data.draw(
            st.sampled_from(["replace", "replace", "skip", "reject"]), label="conflict"
        )
        pool = sorted(self.model.seen)
        after = data.draw(st.lists(st.sampled_from(pool), max_size=1), label="after") if pool else []
        if self.alone:
            self.both("promote", 1000)
        answers = [
            side.do("enqueue", jobs, after)
            for jobs in [jobs_of([wish], self.numbers, self.delay)]
            for side in (self.model, self.other)
        ]
        self.same_receipts(*answers)

    @action(2, keyed, theme="keys")
    def manage_keyed(self, data: Draw) -> None:
        """Cancelled, deleted or retried: one that holds a key, or held it once."""
        verb = data.draw(st.sampled_from(["cancel", "delete", "retry"]), label="verb")
        label = data.draw(st.sampled_from(keyed(self)), label="job")
        self.both("manage", verb, [label])
