"""The map at the head of CONTRIBUTING.md leads to what is there: its walk, and where to change what."""

import re
from pathlib import Path

from tests.docs.pages import ROOT

SOURCE = ROOT / "src" / "windlass"
STORES = (SOURCE / "store" / "postgres", SOURCE / "store" / "sqlite")
STOPS = 18


def part(title: str) -> str:
    """What stands below a heading."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {title}\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    assert found, f"CONTRIBUTING.md has no part called {title!r}"
    return found[1]


def rows() -> list[list[str]]:
    """The table of changes, without its head."""
    lines = [line for line in part("Where to change what").splitlines() if line.startswith("|")]
    return [line.strip("| ").split(" | ") for line in lines[2:]]


def named(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def places(name: str, cell: str) -> list[Path]:
    """Where a name may lead: to each store, or to PostgreSQL alone, where the cell says so."""
    if "/" in name.removeprefix("sql/").removeprefix("flow/"):
        return [SOURCE / name]
    for said, stores in (("of each store", STORES), ("of PostgreSQL", STORES[:1])):
        before = re.split(r"[;.] ", cell.partition(said)[0])[-1]
        if said in cell and f"`{name}`" in before:
            return [store / name for store in stores]
    return [SOURCE / name]


def test_the_walk_is_short_and_every_stop_is_there() -> None:
    stops = re.findall(r"^\d+\. `([^`]+)`: .+\.$", part("The walk of one job"), re.MULTILINE)
    assert 0 < len(stops) <= STOPS
    assert len(set(stops)) == len(stops)
    assert [stop for stop in stops if not (SOURCE / stop).is_file()] == []


def test_every_change_leads_to_code_and_tests_that_are_there() -> None:
    assert len(rows()) >= 10
    for change, code, proof in rows():
        for name in named(code):
            for place in places(name, code):
                assert place.exists(), f"{change}: {place.relative_to(ROOT)} is not there"
        for name in named(proof):
            assert name.startswith("tests/"), f"{change}: {name} is no test"
            assert (ROOT / name).exists(), f"{change}: {name} is not there"


def test_every_table_with_a_queue_is_in_the_list_of_its_names() -> None:
    listed = {name.removeprefix("windlass_") for name in named(part("Where a queue's name is stored"))}
    for store in STORES:
        text = "".join(path.read_text(encoding="utf-8") for path in store.glob("migrations/*.sql"))
        made = re.findall(r"^CREATE TABLE windlass[._](\w+) \((.*?)^\)", text, re.MULTILINE | re.DOTALL)
        assert len(made) > 10, "the tables were not found"
        found = {table for table, columns in made if re.search(r"^ +queues? ", columns, re.MULTILINE)}
        assert found - listed == set(), f"{store.name}: say in CONTRIBUTING.md what these hold"
