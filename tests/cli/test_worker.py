"""What `windlass worker` looks at before it starts anything."""

import msgspec
import pytest

from windlass import Windlass
from windlass.cli.worker import _settings, _warn_of_strange_queues


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
