"""What the command says of abilities: who has them, and which jobs wait for one that nobody has [K14]."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.cli.kit import Desk
from windlass import Windlass

LACKING = "no live worker has the ability gpu"


def heavy(desk: Desk, **about: Any) -> int:
    """A job that needs a GPU, and a worker of its queue that has what is said."""
    desk.visit(lambda rig: rig.worker("default", abilities=frozenset(about.get("has", ()))))
    (id,) = desk.visit(lambda rig: rig.add("t", needs="gpu"))
    return int(id)


def test_a_job_says_that_nobody_has_what_it_needs(any_desk: Desk) -> None:
    """[M4] [K14] On its page and in the listing; its own needs are shown, too."""
    id = heavy(any_desk)
    said = any_desk.ok("job", "show", str(id))
    assert LACKING in said
    assert "needs" in said
    assert LACKING in any_desk.ok("jobs")
    assert any_desk.json("job", "show", str(id))["jobs"][0]["needs"] == "gpu"


def test_nothing_is_said_where_somebody_has_it(any_desk: Desk) -> None:
    """[K14]"""
    id = heavy(any_desk, has=("gpu", "disk"))
    assert "it waits for a free slot" in any_desk.ok("job", "show", str(id))
    assert LACKING not in any_desk.ok("doctor")
    (worker,) = any_desk.json("workers")["workers"]
    assert worker["abilities"] == ["disk", "gpu"]


def test_the_doctor_finds_jobs_that_nobody_is_able_to_run(any_desk: Desk) -> None:
    """[K14] And says how to start who is."""
    heavy(any_desk)
    (found,) = [each for each in any_desk.json("doctor")["findings"] if LACKING in each["text"]]
    assert found["name"] == "queue default"
    assert found["text"] == f"1 job waits, and {LACKING}"
    assert "windlass worker MODULE:APP -q default --ability gpu" in found["advice"]


def test_what_nobody_can_run_is_not_runnable(any_desk: Desk) -> None:
    """[M7] [K14] It counts as ready."""
    heavy(any_desk)
    any_desk.visit(lambda rig: rig.add("t"))
    (queue,) = any_desk.json("queues")["queues"]
    assert (queue["ready"], queue["runnable"], queue["needs"]) == (2, 1, {"gpu": 1})


def test_an_enqueue_says_so_at_once(any_desk: Desk) -> None:
    """[K14] And takes several, in any order."""
    any_desk.visit(lambda rig: rig.worker("default", tasks={"t": "default"}))
    result = any_desk.run("enqueue", "t", "--needs", "gpu,big-memory")
    assert "no live worker of queue default has the abilities big-memory, gpu" in result.stderr
    (job,) = any_desk.json("jobs")["jobs"]
    assert job["needs"] == "big-memory,gpu"


def test_a_need_can_be_taken_away(any_desk: Desk) -> None:
    """[E8] [K14]"""
    id = heavy(any_desk)
    any_desk.ok("job", "change", str(id), "--needs", "")
    assert "it waits for a free slot" in any_desk.ok("job", "show", str(id))


SHOP = """
import os
from windlass import Windlass
app = Windlass()

@app.task(name="heavy", needs="gpu")
def heavy() -> str:
    return os.environ.get("WINDLASS_ABILITIES", "")
"""


def test_a_worker_process_has_what_its_flags_say(tmp_path: Path) -> None:
    """[K14] Its children, too: of two workers the one with the flag runs all that need it."""
    (tmp_path / "shop.py").write_text(SHOP)
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    app = Windlass(url)
    app.migrate()
    words = [sys.executable, "-m", "windlass", "worker", "shop:app", "-q", "default"]
    outside = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    with ExitStack() as stack:
        for flags in ([], ["--ability", "gpu", "--ability", "disk"]):
            worker = subprocess.Popen(
                [*words, *flags], cwd=tmp_path, env={**outside, "WINDLASS_DATABASE_URL": url}
            )
            stack.callback(worker.wait, 30)
            stack.callback(worker.terminate)
        jobs = [app.enqueue("heavy") for _ in range(20)]
        assert {job.result("60s") for job in jobs} == {"gpu,disk"}
    app.close()
