"""`manage.py windlass`, `windlass_migrate` and `windlass_worker`."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests.contrib.django import kit
from windlass import Windlass
from windlass.contrib.django.app import ADDRESS, BACKEND, worker_app
from windlass.contrib.django.management.commands.windlass_worker import Command

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """The commands leave word for a worker's processes in the environment."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def test_every_verb_works_on_the_projects_jobs(jobs: Windlass, capsys: pytest.CaptureFixture[str]) -> None:
    result = kit.add.enqueue(1)
    jobs.run_until_idle()
    capsys.readouterr()
    call_command("windlass", "--", "jobs", "--json")
    (found,) = json.loads(capsys.readouterr().out)["jobs"]
    assert (found["id"], found["state"]) == (result.id, "succeeded")
    call_command("windlass", "--", "queues")
    assert "default" in capsys.readouterr().out


def test_the_schema_is_brought_up_to_date(jobs: Windlass, capsys: pytest.CaptureFixture[str]) -> None:
    kit.add.enqueue(1)
    call_command("windlass_migrate")
    assert "up to date" in capsys.readouterr().out


def test_what_cannot_be_done_is_a_command_error(on_sqlite: Windlass) -> None:
    kit.add.enqueue(1)
    with pytest.raises(CommandError, match="no job 12345"):
        call_command("windlass", "--", "job", "show", "12345")
    with pytest.raises(CommandError, match="No such command"):
        call_command("windlass", "--", "fly")


def test_a_worker_serves_the_queues_of_its_backend(on_sqlite: Windlass) -> None:
    os.environ[BACKEND] = "default"
    words = Command().words
    assert words(on_sqlite, ["-p", "2"]) == ["worker", ADDRESS, "-q", "default", "-q", "mail", "-p", "2"]
    assert words(on_sqlite, ["-qmail=8"]) == ["worker", ADDRESS, "-qmail=8"]
    assert words(on_sqlite, ["--queue", "mail"]) == ["worker", ADDRESS, "--queue", "mail"]


def test_a_worker_knows_the_tasks_of_installed_apps(on_sqlite: Windlass) -> None:
    assert worker_app() is on_sqlite
    assert "examples.django_shop.tasks.send_receipt" in on_sqlite.tasks


def test_a_real_worker_runs_the_tasks_of_the_project(sqlite_site: str, on_sqlite: Windlass) -> None:
    """From another directory than the project's, as a service manager would."""
    from examples.django_shop.models import Order
    from examples.django_shop.tasks import send_receipt

    result = send_receipt.enqueue(Order.objects.create(email="ada@example.org", cents=1999).id)
    flags = ["windlass_worker", f"--pythonpath={ROOT}", "--log-level", "warning"]
    environ = {
        **os.environ,
        "SHOP_DATABASE_URL": sqlite_site,
        "DJANGO_SETTINGS_MODULE": "examples.django_shop.settings",
    }
    worker = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "django", *flags],
        cwd=Path(sqlite_site.removeprefix("sqlite:///")).parent,
        env=environ,
    )
    try:
        assert on_sqlite.job(result.id).result(timeout=60) == "ada@example.org"
    finally:
        worker.terminate()
        assert worker.wait(timeout=60) == 0
