"""Jobs of several steps [W1], which sleep and wait for signals [W2]."""

from hypothesis import strategies as st

from tests.model.edges import Edges
from tests.model.side import End
from tests.model.steps import Draw, action
from windlass.core.states import Kind

SIGNALS = st.sampled_from(["go", "stop"])
STEPS = st.sampled_from(["plan", "act", "sleep"])


class Waits(Edges):
    """Handlers that keep what they have done, sleep and wait, and those who send them what they wait for."""

    @action(6, lambda machine: machine.model.claimed, theme="edges")
    def do_step(self, data: Draw) -> None:
        """For a job it runs, or did once; a sleep puts its job off, mostly."""
        worker, label = data.draw(st.sampled_from(sorted(self.model.claimed)), label="claim")
        name, attempt = data.draw(STEPS, label="name"), data.draw(st.integers(1, 2), label="attempt")
        sleeps = name == "sleep"
        delay = self.delay(data.draw(st.integers(1, 4), label="steps")) if sleeps else None
        answer = self.both("do_step", worker, label, name, str(next(self.numbers)), delay, attempt)
        runs = isinstance(answer, tuple) and label in self.known.get(worker, ())
        if sleeps and delay is not None and runs and data.draw(st.integers(0, 3)):
            snooze = [End(label, Kind.SNOOZE, delay, False)]
            self.both("finish", worker, next(self.flushes[worker]), snooze)
            self.known[worker].remove(label)

    @action(2, lambda machine: machine.model.ids, theme="edges")
    def list_steps(self, data: Draw) -> None:
        """Of a job in whatever state, or gone."""
        self.both("steps", data.draw(st.sampled_from(sorted(self.model.ids)), label="job"))

    @action(6, lambda machine: machine.model.claimed, theme="edges")
    def ask(self, data: Draw) -> None:
        """For a job it runs, or did once; mostly the job is suspended then."""
        worker, label = data.draw(st.sampled_from(sorted(self.model.claimed)), label="claim")
        signal, no = data.draw(SIGNALS, label="signal"), data.draw(st.integers(1, 2), label="no")
        timeout = data.draw(st.sampled_from([None, 0, 1, 2, 4]), label="timeout")
        seconds = None if timeout is None else self.delay(timeout)
        answer = self.both("ask", worker, label, signal, no, seconds)
        if answer == "waits" and label in self.known.get(worker, ()) and data.draw(st.integers(0, 3)):
            if data.draw(st.booleans(), label="signalled in between"):
                self.both("signal", label, signal, str(next(self.numbers)))
            snooze = [End(label, Kind.SNOOZE, self.delay(6), False)]
            self.both("finish", worker, next(self.flushes[worker]), snooze)
            self.known[worker].remove(label)

    @action(3, lambda machine: machine.model.seen, theme="edges")
    def signal(self, data: Draw) -> None:
        """To a job in whatever state."""
        label = data.draw(st.sampled_from(sorted(self.model.seen)), label="job")
        self.both("signal", label, data.draw(SIGNALS, label="signal"), str(next(self.numbers)))
        self.both("waits")
