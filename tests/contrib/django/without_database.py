"""Tests of a project for which Django's runner makes no database. They begin with an app that was there
before the runner, as one in a module `tasks` that a model imports; `test_project_tests.py` runs this file."""

import sys
from importlib import import_module

if __name__ == "__main__":
    import os

    os.environ["DJANGO_SETTINGS_MODULE"] = "examples.django_shop.settings"
    import django

    django.setup()
    from django.core.management import execute_from_command_line

    import_module("tests.contrib.django.without_database")
    execute_from_command_line(["manage.py", "test", "tests.contrib.django.without_database", *sys.argv[1:]])
    sys.exit(0)

from django.test import SimpleTestCase

from windlass.contrib.django import get_app

app = get_app()


@app.task(name="shop.note")
def note(text: str) -> str:
    return text


class WithoutDatabase(SimpleTestCase):
    """Jobs that nobody has provided for stay in this process."""

    def test_a_job_is_enqueued_and_runs(self) -> None:
        job = note.enqueue("hello")
        assert app.run_until_idle().succeeded == 1
        assert job.result() == "hello"

    def test_jobs_are_looked_at_and_removed(self) -> None:
        app.jobs().delete()
        assert app.jobs().count().jobs == 0
