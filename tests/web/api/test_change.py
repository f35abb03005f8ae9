"""A waiting job is changed over HTTP, and on its page [E8]."""

import sys
from collections.abc import Iterator

import pytest

from tests.web.kit import HEADERS_OF, OPERATE, READ, rigged, visiting
from windlass import Windlass

DEEP = 10_500
"""More levels than any interpreter follows."""


@pytest.fixture
def usual_recursion() -> Iterator[None]:
    """The recursion limit of a fresh interpreter: another test of the process may have raised it."""
    found = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)
    yield
    sys.setrecursionlimit(found)


async def test_e8_a_waiting_job_is_changed(any_app: Windlass) -> None:
    """[E8] The timeline of the job says who changed what, but for its arguments."""
    async with any_app, visiting(any_app) as visitor:
        id = (await visitor.post("/api/jobs", json={"task": "t", "args": [1]})).json()["id"]
        body = {"queue": "mail", "priority": "high", "delay": "1h", "tags": ["x"], "kwargs": {"n": 2}}
        answer = await visitor.patch(f"/api/jobs/{id}", json=body)
        assert (answer.status_code, answer.json()) == (200, {"answers": {id: "changed"}})
        job = (await visitor.get(f"/api/jobs/{id}")).json()
        seen = [job[name] for name in ("queue", "priority", "state", "tags", "payload")]
        assert seen == ["mail", "high", "scheduled", ["x"], {"n": 2}]
        (event,) = [each for each in job["timeline"] if each["kind"] == "operator"]
        assert event["text"] == "changed: kwargs, queue mail, priority high, delay 1h, tags ['x']"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "invalid"),
        ({"queue": "Not A Name"}, "invalid"),
        ({"unique_key": "u"}, "invalid"),
        ({"delay": "1h", "run_at": 4e9}, "invalid"),
        ({"args": ["seven"]}, "invalid"),
    ],
)
async def test_e8_what_is_wrong_is_refused(app: Windlass, body: dict[str, object], code: str) -> None:
    """[E8] [E3] [E4] And nothing is changed."""

    @app.task(name="t")
    def count(n: int) -> None: ...

    async with app, visiting(app) as visitor:
        id = (await visitor.post("/api/jobs", json={"task": "t", "args": [1]})).json()["id"]
        answer = await visitor.patch(f"/api/jobs/{id}", json=body)
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["code"].startswith(code)
        assert (await visitor.get(f"/api/jobs/{id}")).json()["payload"] == {"n": 1}


async def test_e8_what_runs_is_left_alone(app: Windlass) -> None:
    async with app, visiting(app) as visitor, rigged(app) as rig:
        worker = await rig.worker("default")
        (id,) = await rig.add("t")
        await rig.run(worker, id)
        answer = await visitor.patch(f"/api/jobs/{id}", json={"priority": "low"})
        assert answer.json() == {"answers": {str(id): "running"}}
        assert (await visitor.patch("/api/jobs/999", json={"priority": "low"})).status_code == 404


async def test_m5_only_operators_change_jobs(app: Windlass) -> None:
    async with app, visiting(app, read=[READ], operate=[OPERATE], headers=HEADERS_OF["read"]) as visitor:
        assert (await visitor.patch("/api/jobs/1", json={"priority": "low"})).status_code == 403


@pytest.mark.usefixtures("usual_recursion")
async def test_e8_the_page_has_a_form(app: Windlass) -> None:
    """[E8] What is left empty stays."""
    async with app, visiting(app) as visitor:
        id = (await visitor.post("/api/jobs", json={"task": "t", "args": [1]})).json()["id"]
        assert 'name="arguments"' in (await visitor.get(f"/jobs/{id}")).text
        form = {"do": "change", "queue": "", "priority": "low", "delay": "", "arguments": '{"n": 3}'}
        page = await visitor.post(f"/jobs/{id}", data=form, follow_redirects=True)
        assert page.status_code == 200
        assert "changed" in page.text
        job = (await visitor.get(f"/api/jobs/{id}")).json()
        assert (job["queue"], job["priority"], job["payload"]) == ("default", "low", {"n": 3})
        for text in ("{", "[" * DEEP, "[" * DEEP + "]" * DEEP):
            wrong = await visitor.post(f"/jobs/{id}", data={"do": "change", "arguments": text})
            assert wrong.status_code == 400
