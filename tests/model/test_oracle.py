"""The machine against a second oracle: proves that the machine itself compares like with like."""

from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.kit import HandClock
from tests.model.machine import StoreMachine
from tests.model.oracle import OracleStore
from tests.model.pair import SETTINGS
from tests.model.profiles import ci
from tests.model.side import Side


class MemoryMachine(StoreMachine):
    """The model beside itself."""

    async def open_subject(self) -> Side:
        clock = HandClock()
        return Side(OracleStore(SETTINGS, clock), clock, self.run)

    async def close_subject(self) -> None:
        await self.other.store.close()


def test_the_model_does_what_the_model_does() -> None:
    """Whatever fails here is a mistake of the machine."""
    run_state_machine_as_test(MemoryMachine, settings=ci(20))
