"""[W1] A deploy comes while jobs sleep: a step under another name is remapped where the code says so, the
result of another function is refused unless the code accepts it, and steps come, go and change places."""

import signal

import pytest

from tests.chaos.durable.workflows import RELEASE
from tests.chaos.workers.kit import Scene
from windlass.store.records import Options

APP = "tests.chaos.durable.workflows:app"


@pytest.mark.slow
async def test_a_deploy_over_a_sleep(scene: Scene) -> None:
    ways = ("renamed", "accepted", "another", "refused", "added", "reordered", "removed")
    once = Options(max_attempts=1)
    jobs = {way: (await scene.enqueue("deployed", options=once, way=way))[0] for way in ways}
    first = await scene.host(APP, **{RELEASE: "1"})
    await scene.seen(what="priced", n=len(ways), within=20)
    first.send(signal.SIGTERM)
    assert await first.leaves() == 0
    await scene.host(APP, **{RELEASE: "2"})
    ended = {way: await scene.state(job, "succeeded", "dead", within=30) for way, job in jobs.items()}
    assert {way: record.result for way, record in ended.items()} == {
        "renamed": "1", "accepted": "1", "another": "100", "refused": None, "added": "20", "reordered": "20",
        "removed": "1",
    }  # fmt: skip
    (error,) = ended["refused"].errors
    assert error.type == "windlass.errors.StepChanged"
    assert "price_in_euros" in error.message
    ran = {way: [entry.note for entry in scene.entries(job, "effect")] for way, job in jobs.items()}
    assert ran == {
        "renamed": ["euros"], "accepted": ["euros"], "another": ["euros", "cents"], "refused": ["euros"],
        "added": ["euros", "tax"], "reordered": ["euros", "tax"], "removed": ["discount", "euros"],
    }  # fmt: skip
    assert len(scene.entries(what="priced")) == 2 * len(ways) - 1, "each has run once before the deploy"
