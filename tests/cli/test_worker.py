"""What `windlass worker` looks at before it starts anything."""

import msgspec
import pytest
from click.testing import CliRunner

from windlass import Windlass
from windlass.cli import main
from windlass.cli.worker import _settings, _warn_of_strange_queues

nothing = Windlass("sqlite:///:memory:")


@pytest.fixture
def shop() -> Windlass:
    app = Windlass("sqlite:///shop.db", queues=["mail", "parcel"])

    @app.task(queue="mail")
    def letter() -> None: ...

    return app


def test_a_queue_that_no_task_goes_to_is_told(shop: Windlass, caplog: pytest.LogCaptureFixture) -> None:
    """A name with a typo would be served for ever, with nothing to do."""
    _warn_of_strange_queues(shop, _settings(shop))
    assert "no task of this app uses queue parcel by default" in caplog.text
    assert "the tasks use: default, mail" in caplog.text
    assert "queue mail" not in caplog.text
    assert "did you mean" not in caplog.text
    _warn_of_strange_queues(shop, msgspec.structs.replace(_settings(shop), queues={"mial": 3}))
    assert "queue mial by default; the tasks use: default, mail; did you mean mail?" in caplog.text


@pytest.mark.parametrize(
    ("slots", "most"), [("5000/process", "1,000"), ("0/process", "1,000"), ("2147483648", "2,147,483,647")]
)
def test_k1_slots_that_cannot_be_are_refused_in_a_sentence(slots: str, most: str) -> None:
    """[K1] Nothing is started, and the store is not asked."""
    answer = CliRunner().invoke(main, ["worker", "tests.cli.test_worker:nothing", "-q", f"mail={slots}"])
    assert answer.exit_code == 1
    assert isinstance(answer.exception, SystemExit)
    refused = f"queue 'mail': {slots} slots are not possible; write a whole number from 1 to {most}"
    assert refused in answer.output
