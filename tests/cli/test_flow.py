"""windlass gates and watermarks: where jobs stand aside and why [F3] [F6] [M4]."""

from tests.cli.kit import Desk
from tests.conformance.kit import Rig


def held_jobs(desk: Desk) -> int:
    """Three jobs of one concurrency key, two of an ordering key; the answer is a job that waits."""

    async def fill(rig: Rig) -> int:
        ids = await rig.add("a", "b", "c", queue="mail", concurrency_key="tenant:[b]7")
        await rig.add("d", "e", queue="mail", ordering_key="o/1")
        await rig.store.promote()
        return ids[-1]

    return desk.visit(fill)


def test_f3_gates_show_where_jobs_wait_and_why(any_desk: Desk) -> None:
    assert any_desk.json("gates") == {"gates": []}
    held_jobs(any_desk)
    gates = {gate["name"]: gate for gate in any_desk.json("gates")["gates"]}
    assert gates.keys() == {"key:tenant:[b]7", "order:mail/o/1"}
    key = gates["key:tenant:[b]7"]
    assert (key["passes"], key["waiting"]) == (1, 2)
    assert key["reason"] == "waits for a slot of concurrency key 'tenant:[b]7'"
    assert 0 <= key["oldest"] < 60
    said = any_desk.ok("gates")
    assert "waits for the jobs before it of ordering key 'o/1' in queue mail" in said
    assert "key:tenant:[b]7" in said
    assert len(any_desk.json("gates", "--limit", "1")["gates"]) == 1


def test_m4_a_waiting_job_says_why(any_desk: Desk) -> None:
    id = held_jobs(any_desk)
    (job,) = any_desk.json("job", "show", str(id))["jobs"]
    assert job["reason"] == "waits for a slot of concurrency key 'tenant:[b]7'"
    assert (job["state"], job["concurrency_key"], job["ordering_key"]) == ("ready", "tenant:[b]7", None)
    said = any_desk.ok("job", "show", str(id))
    assert "waits for a slot of concurrency key 'tenant:[b]7'" in said
    assert "concurrency key" in said


def test_f6_watermarks(any_desk: Desk) -> None:
    async def work(rig: Rig) -> None:
        await rig.add("a", "b", "c", queue="orders", ordering_key="o-1")
        await rig.add("a", queue="orders", ordering_key="o-2")
        await rig.store.promote()
        worker = await rig.worker("orders")
        await rig.finish(worker, await rig.claim(worker, "orders"))

    any_desk.visit(work)
    first, second = any_desk.json("watermarks", "orders")["watermarks"]
    assert (first["key"], first["position"], first["waiting"]) == ("o-1", 1, 2)
    assert (second["key"], second["position"], second["waiting"], second["age"]) == ("o-2", 1, 0, 0)
    assert first["at"].endswith("Z")
    assert 0 <= first["age"] < 60
    (only,) = any_desk.json("watermarks", "orders", "--key", "o-2")["watermarks"]
    assert only["key"] == "o-2"
    said = any_desk.ok("watermarks", "orders")
    assert "o-1" in said
    assert "ago)" in said


def test_f6_watermarks_of_a_queue_that_is_none(desk: Desk) -> None:
    assert "no queue 'oders'" in desk.refused("watermarks", "oders")
