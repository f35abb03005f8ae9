"""Who waits for what, and answering them, over HTTP and in pages [W2]."""

from dataclasses import dataclass
from typing import Any

import httpx
import msgspec

from tests.conformance.kit import Rig
from tests.web.kit import HEADERS_OF, OPERATE, READ, rigged, visiting
from tests.web.pages.kit import Html, harmless
from windlass import Windlass
from windlass.core.states import Kind
from windlass.store.records import Wait

ODD = "<b>\"'&{{7*7}}"


@dataclass
class Approval:
    """What jobs of this test wait for."""

    ok: bool
    times: int
    by: str = "me"


async def waiting(rig: Rig, signal: str = "approved", shape: Any = None, timeout: float | None = 3600) -> int:
    """A job that waits for a signal."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    text = None if shape is None else msgspec.json.encode(shape).decode()
    wait = Wait(name=f"wait:{signal}", signal=signal, timeout=timeout, shape=text)
    await rig.store.wait_for_signal(worker, job, wait)
    await rig.finish(worker, job, Kind.SNOOZE, delay=3600)
    return id


async def value_of(rig: Rig, id: int, signal: str = "approved") -> Any:
    """What the job that goes on is given."""
    worker = await rig.worker()
    job = await rig.run(worker, id)
    answer = await rig.store.wait_for_signal(worker, job, Wait(name=f"wait:{signal}", signal=signal))
    assert answer.step is not None
    return msgspec.json.decode(answer.step.result)


async def test_w2_a_program_lists_waits_and_answers_one(any_app: Windlass) -> None:
    await any_app.amigrate()
    async with rigged(any_app) as rig, visiting(any_app) as visitor:
        id = await waiting(rig, shape=msgspec.json.schema(Approval))
        (wait,) = (await visitor.get("/api/waits")).json()["waits"]
        assert (wait["job"], wait["signal"], wait["task"]) == (str(id), "approved", "t")
        assert wait["since"] < wait["until"]
        assert wait["shape"]["$ref"]
        job = (await visitor.get(f"/api/jobs/{id}")).json()
        assert job["why"].startswith("waits for signal approved since ")
        path = f"/api/jobs/{id}/signals/approved"
        refused = await visitor.post(path, json={"value": {"ok": "yes", "times": 1}})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid")
        assert "'ok' must be true or false" in refused.json()["error"]["message"]
        assert (await visitor.post(path, json={"value": {"ok": True, "times": 2}})).json() == {
            "answer": "delivered"
        }
        assert await value_of(rig, id) == {"ok": True, "times": 2}
        assert (await visitor.get("/api/waits")).json() == {"waits": []}
        other = await visitor.post(f"/api/jobs/{id}/signals/other", json={})
        assert other.json() == {"answer": "kept"}
        events = (await visitor.get(f"/api/jobs/{id}")).json()["timeline"]
        assert [each["text"] for each in events if each["kind"] == "operator"] == [
            "signal approved: delivered",
            "signal other: kept",
        ]


async def test_w2_what_cannot_be_sent_is_refused(app: Windlass) -> None:
    await app.amigrate()
    async with rigged(app) as rig, visiting(app) as visitor:
        (id,) = await rig.add("t")
        await rig.store.cancel([id])
        ended = await visitor.post(f"/api/jobs/{id}/signals/go", json={"value": 1})
        assert (ended.status_code, ended.json()["error"]["code"]) == (409, "signal_refused")
        gone = await visitor.post("/api/jobs/987654321/signals/go", json={"value": 1})
        assert gone.status_code == 404
        odd = await visitor.post(f"/api/jobs/{id}/signals/a%23b", json={})
        assert odd.status_code == 400
        elsewhere = {"sec-fetch-site": "cross-site"}
        answer = await visitor.post(f"/api/jobs/{id}/signals/go", json={}, headers=elsewhere)
        assert answer.status_code == 403


async def test_w2_only_operators_answer(app: Windlass) -> None:
    await app.amigrate()
    async with rigged(app) as rig, visiting(app, read=[READ], operate=[OPERATE]) as visitor:
        id = await waiting(rig)
        for role, there in (("read", False), ("operate", True)):
            page = await visitor.get(f"/jobs/{id}", headers=HEADERS_OF[role])
            assert ("value-0" in form_of(page).values() or "value" in form_of(page).values()) is there
        path = f"/api/jobs/{id}/signals/approved"
        for role, status in (("nobody", 401), ("read", 403), ("operate", 200)):
            answer = await visitor.post(path, json={}, headers=HEADERS_OF[role])
            assert answer.status_code == status, role


def form_of(page: httpx.Response) -> dict[str, str]:
    """The names of what can be filled in, by their labels."""
    html = Html(page.text)
    by_id = {each.get("id", ""): each.get("name", "") for each in html.all("input", "select", "textarea")}
    return {each["for"]: by_id[each["for"]] for each in html.all("label") if each.get("for") in by_id}


async def test_w2_an_operator_fills_in_a_form_made_of_the_type(any_app: Windlass) -> None:
    await any_app.amigrate()
    async with rigged(any_app) as rig, visiting(any_app) as visitor:
        id = await waiting(rig, shape=msgspec.json.schema(Approval))
        listed = await visitor.get("/waits")
        assert f'href="/jobs/{id}"' in listed.text
        page = await visitor.get(f"/jobs/{id}")
        assert "Waits for signal" in Html(page.text).text
        names = form_of(page)
        assert [name for name in names.values() if name != "q"] == ["value-0", "value-1", "value-2"]
        filled = {"do": "signal", "signal": "approved", "value-0": "yes", "value-1": "x", "value-2": ODD}
        wrong = await visitor.post(f"/jobs/{id}", data=filled)
        assert wrong.status_code == 400
        assert "times: give a whole number" in Html(wrong.text).text
        sent = await visitor.post(f"/jobs/{id}", data={**filled, "value-1": "3"})
        assert (sent.status_code, sent.headers["location"]) == (303, f"/jobs/{id}?did=signalled")
        assert await value_of(rig, id) == {"ok": True, "times": 3, "by": ODD}
        again = await visitor.post(f"/jobs/{id}", data={**filled, "value-1": "3"})
        assert again.status_code == 409


async def test_w2_hostile_names_and_types_are_shown_as_text(app: Windlass) -> None:
    """And what is no simple type is answered in a box for JSON."""
    await app.amigrate()
    shape = {
        "type": "object",
        "properties": {ODD: {"type": "string", "default": ODD}, "pick": {"enum": [ODD, 1]}},
        "required": ["pick"],
    }
    async with rigged(app) as rig, visiting(app) as visitor:
        formed, boxed = await waiting(rig, "a" + ODD.replace("/", ""), shape), await waiting(rig, "box", None)
        for path in ("/waits", f"/jobs/{formed}", f"/jobs/{boxed}"):
            answer = await visitor.get(path)
            assert answer.status_code == 200
            harmless(answer.text)
        bad = await visitor.post(f"/jobs/{boxed}", data={"do": "signal", "signal": "box", "value": "{"})
        assert bad.status_code == 400
        sent = await visitor.post(
            f"/jobs/{boxed}", data={"do": "signal", "signal": "box", "value": '{"a": [1]}'}
        )
        assert sent.status_code == 303
        assert await value_of(rig, boxed, "box") == {"a": [1]}


async def test_w2_e7_a_signal_that_is_sent_again_with_its_key_is_sent_once(any_app: Windlass) -> None:
    await any_app.amigrate()
    async with rigged(any_app) as rig, visiting(any_app) as visitor:
        path = f"/api/jobs/{await waiting(rig)}/signals/approved"
        sent = {"value": 1, "idempotency_key": "evt_1"}
        assert (await visitor.post(path, json=sent)).json() == {"answer": "delivered"}
        assert (await visitor.post(path, json=sent)).json() == {"answer": "repeated"}
        for wrong in ("", "x" * 256, 7):
            assert (await visitor.post(path, json=sent | {"idempotency_key": wrong})).status_code == 400
