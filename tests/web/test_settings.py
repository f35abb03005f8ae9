"""Each entry of `windlass.store.fields` is where people look for it: in the help of its command, in the
OpenAPI document, in a form or on the page of a job, and in the reference, with its words."""

import re
from html import unescape
from typing import Any

import click
import httpx
import pytest

from tests.conformance.kit import sample
from tests.docs.pages import ROOT
from tests.web.kit import rigged
from tests.web.pages.kit import Html
from windlass import Windlass
from windlass.cli import main
from windlass.cli.job_page import print_job
from windlass.operations.job_views import JobView
from windlass.operations.operation import Ops
from windlass.operations.principal import Principal, Role
from windlass.store.fields import SUBJECTS, Field, fields_of
from windlass.store.records import CARRIED, JOB_OPTIONS
from windlass.web.api.openapi import document
from windlass.web.api.routing import ENDPOINTS

ALL = [(what, field) for what, record in SUBJECTS.items() for field in fields_of(record).values()]
each_setting = pytest.mark.parametrize(("what", "field"), ALL, ids=[f"{w}-{f.name}" for w, f in ALL])
OPTIONS = [field for field in JOB_OPTIONS.values() if field.unit != "connection"]
"""But for a connection, which only code has."""
each_option = pytest.mark.parametrize("field", OPTIONS, ids=lambda field: field.name)
VERBS = {"queue": {"paused": {"pause", "resume"}}}
"""What `set` leaves out has commands of its own."""


def command(name: str) -> click.Command:
    found = main.get_command(click.Context(main), name)
    assert found is not None
    return found


def group(what: str) -> click.Group:
    found = command(what)
    assert isinstance(found, click.Group)
    return found


@each_setting
def test_m4_a_setting_is_an_option(what: str, field: Field) -> None:
    if field.verbs:
        assert VERBS[what][field.name] <= group(what).commands.keys()
        return
    options = {each.name: each for each in group(what).commands["set"].params}
    option = options[field.name]
    assert isinstance(option, click.Option)
    assert option.opts == [f"--{field.name.replace('_', '-')}"]
    assert (option.help or "").startswith(field.help)


@each_setting
def test_m1_a_setting_is_in_the_api(what: str, field: Field) -> None:
    """Where it is changed, with its words, and where it is shown."""
    schemas: dict[str, Any] = document(ENDPOINTS)["components"]["schemas"]
    taken = schemas[f"{what.capitalize()}Changes"]["properties"][field.name]
    assert taken["description"].startswith(field.help)
    assert field.name in schemas[f"{what.capitalize()}View"]["properties"]


@pytest.mark.parametrize("what", SUBJECTS)
async def test_m3_a_setting_is_in_a_form(app: Windlass, visitor: httpx.AsyncClient, what: str) -> None:
    """With its title and its value."""
    async with rigged(app) as rig:
        await rig.store.set_queue("mine", {})
        await rig.store.set_budget("mine", {"rate": 5.0})
        await rig.store.set_task("mine", {"batch": 5})
    path = {"queue": "/queues/mine", "task": "/tasks", "budget": "/budgets"}[what]
    page = unescape((await visitor.get(path)).text)
    shown = {each["name"] for tag in ("input", "select") for each in Html(page).all(tag) if "name" in each}
    wanted = [field for field in fields_of(SUBJECTS[what]).values() if not field.verbs]
    assert shown >= {field.name for field in wanted}
    assert all(f"<span>{field.label}</span>" in page for field in wanted)


@each_setting
def test_a_setting_is_in_the_reference(what: str, field: Field) -> None:
    text = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    title = "Options of a budget" if what == "budget" else f"Settings of a {what}"
    section = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    (row,) = re.findall(rf"^\| `{field.name}` \|.*$", section, re.MULTILINE)
    assert field.help in row


@each_option
def test_m4_an_option_of_a_job_is_one_of_its_command(field: Field) -> None:
    options = {each.name: each for each in command("enqueue").params}
    option = options[field.name]
    assert isinstance(option, click.Option)
    assert (option.help or "").startswith(field.help)


@each_option
def test_m1_an_option_of_a_job_is_in_the_api(field: Field) -> None:
    schemas: dict[str, Any] = document(ENDPOINTS)["components"]["schemas"]
    assert schemas["NewJobBody"]["properties"][field.kept]["description"].startswith(field.help)
    assert (field.kept in schemas["JobView"]["properties"]) >= (field in CARRIED)


@pytest.mark.parametrize("field", CARRIED, ids=lambda field: field.name)
async def test_m3_m4_an_option_that_a_job_carries_is_shown(
    app: Windlass, visitor: httpx.AsyncClient, capsys: pytest.CaptureFixture[str], field: Field
) -> None:
    """On its page, by its command, and in JSON."""
    async with rigged(app) as rig:
        (first,) = await rig.add("t")
        given = sample(field, first)
        (id,) = await rig.add("t", **given)
        record = await rig.look(id)
        job = await JobView.of(Ops(app, rig.store, Principal("me", Role.READ)), record)
    value = given[field.kept]
    shape = getattr(job, field.kept)
    assert shape == ([str(each) for each in value] if isinstance(value, tuple) else value)
    print_job(job, 0.0, traceback=False)
    page = unescape((await visitor.get(f"/jobs/{id}")).text)
    title = {"headers": "a", "attempts": "attempt"}.get(field.unit, field.kept.replace("_", " "))
    assert re.search(rf"<dt[^>]*>{title}</dt>", page)
    title = {"headers": "header", "attempts": "attempt"}.get(field.unit, title)
    assert re.search(rf"^{title}  +\S", capsys.readouterr().out, re.MULTILINE)


@each_option
def test_an_option_of_a_job_is_in_the_reference(field: Field) -> None:
    text = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    section = text.partition("\n## Options of a job\n")[2].partition("\n## ")[0]
    (row,) = re.findall(rf"^\| `{field.name}` \|.*$", section, re.MULTILINE)
    assert field.help in row


async def test_m3_a_form_changes_every_kind_of_setting(app: Windlass, visitor: httpx.AsyncClient) -> None:
    """A number, a time, a rate and a choice; what was not touched stays, an empty one is as it comes."""
    async with rigged(app) as rig:
        await rig.store.set_queue("mine", {"cool_base": 7.0, "max_depth": 9})
    typed = {"window": "1,000", "cool_base": "", "rate_max": "5000/h", "backoff": "no", "governor": "on"}
    done = await visitor.post("/queues/mine", data={"do": "set", **typed, "rate_min": "1/m"})
    assert done.headers["location"].endswith("did=changed")
    async with rigged(app) as rig:
        (queue,) = await rig.store.queues()
    assert (queue.window, queue.cool_base, queue.max_depth) == (1000, 60.0, 9)
    assert (queue.rate_max, queue.backoff, queue.governor) == (5000 / 3600, False, True)


async def test_m3_a_budget_is_changed_by_its_form(app: Windlass, visitor: httpx.AsyncClient) -> None:
    async with rigged(app) as rig:
        await rig.store.set_budget("mine", {"rate": 5000 / 3600, "burst": 9, "key": "tenant"})
    same = {"do": "set", "rate": "5000/h", "burst": "9", "key": "tenant", "breaker": "0"}
    done = await visitor.post("/budgets/mine", data=same)
    assert done.headers["location"].endswith("did=unchanged")
    await visitor.post("/budgets/mine", data={**same, "key": "", "breaker": "3", "breaker_pause": "2m"})
    async with rigged(app) as rig:
        (budget,) = await rig.store.budgets()
    assert (budget.rate, budget.burst, budget.key) == (5000 / 3600, 9, None)
    assert (budget.breaker, budget.breaker_pause) == (3, 120.0)


async def test_m3_p13_a_task_is_changed_by_its_form(app: Windlass, visitor: httpx.AsyncClient) -> None:
    """[P13] A chunk may be written as a size; an empty field goes back to what the code says."""
    async with rigged(app) as rig:
        await rig.store.set_task("shop.load", {"batch": 500, "batch_timeout": 90.0})
    typed = {"do": "set", "batch": "500", "batch_timeout": "", "chunk": "128MiB"}
    done = await visitor.post("/tasks/shop.load", data=typed)
    assert done.headers["location"].endswith("/tasks?did=changed")
    assert "batch 500, chunk 134,217,728" in unescape((await visitor.get("/tasks")).text)
    async with rigged(app) as rig:
        (task,) = await rig.store.tasks()
    assert (task.batch, task.batch_timeout, task.chunk) == (500, None, 128 * 1024 * 1024)
    same = await visitor.post("/tasks/shop.load", data={**typed, "chunk": "134217728"})
    assert same.headers["location"].endswith("did=unchanged")
    for wrong in (
        {"chunk": "a lot"},
        {"chunk": "9" * 400},
        {"chunk": "0"},
        {"batch": "many"},
        {"do": "drop"},
    ):
        refused = await visitor.post("/tasks/shop.load", data={**typed, **wrong})
        assert refused.status_code == 400, wrong
    async with rigged(app) as rig:
        assert await rig.store.tasks() == [task]
