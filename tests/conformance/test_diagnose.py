"""What `windlass doctor` is told by a store: findings, each with what to do."""

from tests.conformance.kit import Rig
from windlass.store.records import Finding


async def findings(rig: Rig, name: str) -> list[Finding]:
    return [finding for finding in await rig.store.diagnose() if finding.name == name]


async def test_a_sound_store(rig: Rig) -> None:
    """[K1] Every look says what it saw, and none complains."""
    found = await rig.store.diagnose()
    assert found
    for finding in found:
        assert finding.level == "ok", finding
        assert finding.text


async def test_a_complaint_says_what_to_do(rig: Rig) -> None:
    """[K1] Jobs are ready in a queue that nobody serves; a worker for it puts that right."""
    if rig.name == "memory":
        return  # it lives in one process with its workers, and has nothing to look at
    await rig.one(queue="mail")
    await rig.one(queue="served")
    await rig.worker("served")
    (complaint,) = await findings(rig, "queues")
    assert complaint.level == "warning"
    assert "mail" in complaint.text
    assert complaint.advice == "windlass worker myapp:app -q mail"
    worker = await rig.worker("mail", "other")
    assert [finding.level for finding in await findings(rig, "queues")] == ["ok"]
    await rig.store.retire(worker)
    assert [finding.level for finding in await findings(rig, "queues")] == ["warning"]


async def test_a_paused_queue_needs_no_worker(rig: Rig) -> None:
    """[K1] Its jobs are meant to wait."""
    if rig.name == "memory":
        return
    await rig.one(queue="mail")
    await rig.store.set_queue("mail", {"paused": True})
    assert [finding.level for finding in await findings(rig, "queues")] == ["ok"]
    await rig.store.set_queue("mail", {"paused": False})
    assert [finding.level for finding in await findings(rig, "queues")] == ["warning"]


async def test_looking_changes_nothing(rig: Rig) -> None:
    """[K1]"""
    id = (await rig.one(queue="mail")).id
    before = await rig.look(id), await rig.depth("mail"), await rig.store.queues()
    await rig.store.diagnose()
    assert (await rig.look(id), await rig.depth("mail"), await rig.store.queues()) == before
