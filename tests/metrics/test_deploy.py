"""The files of `deploy/` can be read, run commands that exist, ask for metrics that exist, and scale by the
right number."""

import configparser
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml  # type: ignore[import-untyped]

from tests.metrics.scrape import Series, evaluate, scraped
from windlass import Windlass
from windlass.cli import main
from windlass.metrics.catalog import MEASURES
from windlass.metrics.prometheus import Exposition
from windlass.operations.principal import Role
from windlass.settings import Settings, load
from windlass.store.records import ClaimedJob, NewJob, Options, PartPlan, Plan, WorkerInfo
from windlass.web.http.credentials import Credentials
from windlass.web.http.origin import Hosts
from windlass.worker.engine.unresponsive import WATCH_EVERY
from windlass.worker.processes.watchdog import LEAVE_TIME

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
GUIDE = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
YAML = [path for path in FILES if path.suffix in (".yaml", ".yml")]
SUFFIXES = {"histogram": ("_bucket", "_count", "_sum")}
KNOWN = {m.name + suffix for m in MEASURES for suffix in SUFFIXES.get(m.kind, ("",))}
INSTALLED = "/opt/windlass/bin/"
SCRIPTS = Path(sys.executable).parent
OURS = ("migrate", "web", "worker")
NAME = re.compile(r"\bwindlass_[a-z_]+\b")


def shown(path: Path) -> str:
    return path.relative_to(DEPLOY).as_posix()


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))


# -- the guide ----------------------------------------------------------------------------------------------


def test_the_guide_names_no_metric_that_does_not_exist() -> None:
    assert set(NAME.findall(GUIDE)) <= KNOWN | {m.name for m in MEASURES}


# -- what asks for metrics ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=shown)
def test_only_metrics_that_exist_are_asked_for(path: Path) -> None:
    asked = set(NAME.findall(path.read_text(encoding="utf-8")))
    assert asked <= KNOWN, f"{shown(path)} asks for {asked - KNOWN}"


def test_the_dashboard_is_whole() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "windlass.json").read_text(encoding="utf-8"))
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        if panel["type"] == "row":
            continue
        assert panel["targets"]
        for target in panel["targets"]:
            assert NAME.search(target["expr"])
            # Several instances may be scraped, and each says the same.
            assert re.search(r"\bmax\b", target["expr"])
            assert target["expr"].count("(") == target["expr"].count(")")


def test_alerts_have_what_a_person_needs() -> None:
    (rules,) = documents("prometheus/alerts.yml")
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    assert len({alert["alert"] for alert in alerts}) == len(alerts) >= 5
    for alert in alerts:
        assert alert["labels"]["severity"] in ("warning", "critical")
        assert {"summary", "description"} == alert["annotations"].keys()
        assert NAME.search(alert["expr"])


def pods(rule: str, series: Series) -> int:
    """How many pods an autoscaler of our manifests asks for, one at least."""
    if rule == "hpa":
        (hpa,) = documents("kubernetes/hpa.yaml")
        (adapter,) = documents("kubernetes/prometheus-adapter.yaml")
        (metric,) = hpa["spec"]["metrics"]
        asked, target = metric["external"]["metric"], metric["external"]["target"]
        (query,) = [
            each["metricsQuery"]
            for each in adapter["rules"]["external"]
            if each["name"]["as"] == asked["name"]
        ]
        matchers = ",".join(f'{k}="{v}"' for k, v in asked["selector"]["matchLabels"].items())
        assert target["type"] == "AverageValue"
        value = evaluate(query.replace("<<.LabelMatchers>>", matchers), series).get("imports", 0.0)
        return max(1, math.ceil(value / int(target["averageValue"])))
    (keda,) = documents("kubernetes/keda.yaml")
    (trigger,) = keda["spec"]["triggers"]
    assert trigger["metricType"] == "AverageValue"
    value = evaluate(trigger["metadata"]["query"], series).get("", 0.0)
    return max(1, math.ceil(value / int(trigger["metadata"]["threshold"])))


@pytest.mark.parametrize(("limit", "parallel"), [(None, None), (2, None), (None, 4)])
async def test_m7_autoscalers_ask_for_as_many_pods_as_would_help(
    any_app: Windlass, limit: int | None, parallel: int | None
) -> None:
    """[M7] [P8] [K10] Forty parts and one pod of four slots: ten pods. Where a limit or `parallel` lets no
    more run than run already: no more pods. By scrapes of two instances of the web."""
    ask = any_app._store_handle().acall

    async def wanted() -> set[int]:
        text = await Exposition(ask).text()
        series = {**scraped(text, instance="a"), **scraped(text, instance="b")}
        return {pods(rule, series) for rule in ("hpa", "keda")}

    async def claim(most: int) -> list[ClaimedJob]:
        claims = await ask(lambda store: store.claim(7, ["imports"], most))
        return [job for claim in claims for job in claim.jobs]

    assert await wanted() == {1}
    await ask(lambda store: store.register(WorkerInfo(id=7, queues=("imports",))))
    options = Options(chunked=True, task_limit=limit)
    await ask(
        lambda store: store.enqueue([NewJob(task="load", payload="{}", queue="imports", options=options)])
    )
    await ask(lambda store: store.promote())
    (job,) = await claim(1)
    plan = Plan(parts=[PartPlan(str(n), 1) for n in range(40)], parallel=parallel)
    await ask(lambda store: store.split(7, 1, job, plan))
    await ask(lambda store: store.promote())
    running = await claim(4)
    await ask(lambda store: store.promote())
    assert len(running) == (limit or 4)
    assert (await ask(lambda store: store.depth()))["imports"].ready == 40 - len(running)
    assert await wanted() == {10 if limit is parallel is None else 1}
    await ask(lambda store: store.set_queue("imports", {"paused": True}))
    assert await wanted() == {1}


# -- what is run --------------------------------------------------------------------------------------------


def arguments(node: Any) -> list[list[str]]:
    """Every `args` or `command` of a manifest that is one of ours."""
    found = []
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("args", "command") and value and value[0] in OURS:
                found.append([str(word) for word in value])
            found += arguments(value)
    elif isinstance(node, list):
        for each in node:
            found += arguments(each)
    return found


def commands() -> list[tuple[str, list[str]]]:
    found = []
    for path in YAML:
        for document in documents(shown(path)):
            found += [(shown(path), words) for words in arguments(document)]
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".service":
            found += [
                (shown(path), shlex.split(line)[1:]) for line in re.findall(r"^ExecStart=(.+)$", text, re.M)
            ]
        if path.name == "Dockerfile":
            found += [(shown(path), json.loads(line)) for line in re.findall(r"^CMD (\[.+\])$", text, re.M)]
    return found


def test_every_process_is_there() -> None:
    for name in ("compose.yaml", "kubernetes/worker.yaml", "kubernetes/web.yaml", "kubernetes/migrate.yaml"):
        assert [each for each, _ in commands() if each == name], f"{name} runs nothing of ours"


@pytest.mark.parametrize(("where", "words"), commands(), ids=lambda value: str(value)[:60])
def test_the_commands_exist_with_these_flags(where: str, words: list[str]) -> None:
    with click.Context(main) as context:
        command = main.get_command(context, words[0])
    assert command is not None, f"{where}: there is no `windlass {words[0]}`"
    with click.Context(command) as context:
        command.parse_args(context, list(words[1:]))  # a flag or a value that is not known raises UsageError


@pytest.mark.parametrize("path", YAML, ids=shown)
def test_yaml_can_be_read(path: Path) -> None:
    assert all(isinstance(document, dict) for document in documents(shown(path)))


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".service"], ids=shown)
def test_units_can_be_read(path: Path) -> None:
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(path, encoding="utf-8")
    assert unit.sections() == ["Unit", "Service", "Install"]
    assert unit["Service"]["NoNewPrivileges"] == "yes"
    assert "Documentation" not in unit["Unit"], "pip installs no documentation"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")
@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".service"], ids=shown)
def test_systemd_takes_the_units(path: Path, tmp_path: Path) -> None:
    """As they are, but for where the command is: systemd looks whether it can be run."""
    unit = tmp_path / path.name
    unit.write_text(path.read_text(encoding="utf-8").replace(INSTALLED, f"{SCRIPTS}/"))
    verified = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False
    )
    assert (verified.returncode, verified.stderr) == (0, "")


def test_the_unit_for_sqlite_runs_jobs_and_drains(tmp_path: Path) -> None:
    """Its own command and environment, with its folders elsewhere: the first start makes the file."""
    text = (DEPLOY / "systemd" / "windlass-sqlite.service").read_text(encoding="utf-8")
    (start,) = re.findall(r"^ExecStart=(.+)$", text, re.M)
    (url,) = re.findall(r"^Environment=WINDLASS_DATABASE_URL=(.+)$", text, re.M)
    assert re.findall(r"^StateDirectory=(.+)$", text, re.M) == ["windlass"]
    (tmp_path / "windlass").mkdir()
    url = url.replace("%S", str(tmp_path))
    command = shlex.split(start.replace(INSTALLED, f"{SCRIPTS}/").replace(":8080", ":0"))
    environ = {**os.environ, "WINDLASS_DATABASE_URL": url, "PYTHONPATH": str(DEPLOY)}
    with Windlass(url) as app, subprocess.Popen(command, env=environ, cwd=tmp_path) as worker:
        try:
            assert app.named("mail.send").using(queue="mail").enqueue("a@b.c", "welcome").result(60) is None
            assert app.enqueue("imports.load", "x").result(60) is None  # where the worker says
        finally:
            worker.terminate()
        assert worker.wait(60) == 0
    assert (tmp_path / "windlass" / "jobs.db").is_file()


@pytest.mark.parametrize("name", ["Dockerfile", "pip/Dockerfile"])
def test_dockerfiles_are_well_formed(name: str) -> None:
    """No engine runs here: instructions that exist, lists that are JSON, settings that Windlass has."""
    text = (DEPLOY / name).read_text(encoding="utf-8")
    lines = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", text, flags=re.M)).splitlines()
    said = [line.partition(" ")[::2] for line in lines if line.strip()]
    assert {word for word, _ in said} <= {
        "FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "VOLUME", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT",
        "CMD",
    }  # fmt: skip
    assert said[0][0] == "FROM"
    assert [json.loads(rest) for word, rest in said if word == "ENTRYPOINT"] == [["windlass"]]
    assert [rest for word, rest in said if word == "USER"] == ["10001:10001"]
    environ = dict(pair.split("=", 1) for word, rest in said if word == "ENV" for pair in shlex.split(rest))
    load(environ={key: value for key, value in environ.items() if key.startswith("WINDLASS_")})
    for word, rest in said:
        if word == "RUN":
            assert shlex.split(rest)[0] in ("python", "pip", "useradd", "/opt/windlass/bin/pip")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for named in re.findall(r"(?:windlass|\.)\[([a-z,0-9]+)\]", text):
        assert set(named.split(",")) <= set(extras)


@pytest.mark.parametrize("name", ["windlass-worker.service", "windlass-sqlite.service"])
def test_workers_have_time_to_leave(name: str) -> None:
    worker = documents("kubernetes/worker.yaml")[0]["spec"]["template"]["spec"]
    unit = (DEPLOY / "systemd" / name).read_text(encoding="utf-8")
    compose = documents("compose.yaml")[0]["services"]["worker"]
    settings = Settings()
    killed = settings.shutdown + settings.grace + LEAVE_TIME + WATCH_EVERY  # a child that does not leave
    handed_back = killed + settings.grace
    assert worker["terminationGracePeriodSeconds"] > handed_back
    assert int(re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.M)[0]) > handed_back
    assert int(compose["stop_grace_period"].removesuffix("s")) > handed_back


def test_the_units_that_write_a_sqlite_file_agree_about_its_folder() -> None:
    """systemd sets the mode of a StateDirectory at each start: the last unit to start decides."""
    said = [
        re.findall(r"^(StateDirectory\w*=.+|UMask=.+)$", (DEPLOY / "systemd" / name).read_text("utf-8"), re.M)
        for name in ("windlass-sqlite.service", "windlass-web.service")
    ]
    wanted = ["StateDirectory=windlass", "StateDirectoryMode=2770", "UMask=0007"]
    assert [sorted(each) for each in said] == [wanted, wanted]


def test_one_process_serves_the_web() -> None:
    """Operations on many jobs live in the process that began them; another one would not know them."""
    assert documents("kubernetes/web.yaml")[0]["spec"]["replicas"] == 1


def test_metrics_are_served_at_the_names_of_their_service() -> None:
    """Kubernetes gives a service these; a Prometheus of the cluster asks by one of them."""
    deployment, service = documents("kubernetes/web.yaml")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each.get("value", "") for each in container["env"]}
    name = service["metadata"]["name"]
    hosts = Hosts(variables["WINDLASS_METRICS_HOSTS"].replace("$(NAMESPACE)", "shop").split(","))
    for end in (".shop", ".shop.svc", ".shop.svc.cluster.local"):
        assert hosts.allow(f"{name}{end}:8470")
    assert not hosts.allow("other.shop.svc:8470")
    assert Hosts(container["args"]).allow(f"{name}:8470")


def test_only_the_migration_gets_the_owners_url() -> None:
    (secret,) = documents("kubernetes/secret.yaml")
    for name, key in (
        ("migrate", "owner-database-url"),
        ("web", "database-url"),
        ("worker", "database-url"),
    ):
        (container,) = documents(f"kubernetes/{name}.yaml")[0]["spec"]["template"]["spec"]["containers"]
        asked = {each["name"]: each.get("valueFrom", {}).get("secretKeyRef") for each in container["env"]}
        assert asked["WINDLASS_DATABASE_URL"] == {"name": "windlass", "key": key}
        assert key in secret["stringData"]
    kept = secret["stringData"]
    assert kept["owner-database-url"].partition("@")[0] != kept["database-url"].partition("@")[0]


def test_nothing_names_a_namespace_or_runs_as_root() -> None:
    for path in (DEPLOY / "kubernetes").iterdir():
        for document in documents(shown(path)):
            assert "namespace" not in document.get("metadata", {})
            pod = document.get("spec", {}).get("template", {}).get("spec")
            if pod is not None:
                assert pod["securityContext"]["runAsNonRoot"] is True
    assert re.search(r"^USER 10001", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.M)


def test_the_readme_explains_every_file() -> None:
    readme = (DEPLOY / "README.md").read_text(encoding="utf-8")
    for path in FILES:
        if path.name != "README.md":
            assert f"{path.name}`" in readme, f"deploy/README.md tells nothing of {shown(path)}"


def test_the_example_credentials_are_accepted() -> None:
    (compose,), (secret,) = documents("compose.yaml"), documents("kubernetes/secret.yaml")
    web, kept = compose["services"]["web"]["environment"], secret["stringData"]
    for read, operate in (
        (web["WINDLASS_WEB_READ"], web["WINDLASS_WEB_OPERATE"]),
        (kept["web-read"], kept["web-operate"]),
    ):
        settings = load(environ={"WINDLASS_WEB_READ": read, "WINDLASS_WEB_OPERATE": operate})
        credentials = Credentials(settings.web_read, settings.web_operate)
        found = credentials.find(f"Bearer {read.partition(':')[2]}")
        assert found is not None
        assert found.role is Role.READ
    assert web["WINDLASS_WEB_READ"].endswith(":" + compose["configs"]["scrape_secret"]["content"])
