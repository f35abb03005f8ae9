"""Every relative link of the documentation leads to a file that is there, and to a heading in it; every page
can be reached from the index."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, name_of, prose

OTHERS = [
    *(
        ROOT / name
        for name in (
            "ARCHITECTURE.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
            "deploy/README.md",
            "spec/README.md",
        )
    ),
    *(ROOT / "examples").glob("*/README.md"),
    *(ROOT / "src").rglob("README.md"),
]
INDEX = ROOT / "docs" / "README.md"
ADR = ROOT / "docs" / "adr"
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")


def links(page: Path) -> list[str]:
    return LINK.findall(re.sub(r"`[^`]*`", "", prose(page)))


@cache
def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [pytest.param(page, id=name_of(page)) for page in [*PAGES, *OTHERS]])
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{name_of(page)} links to {link}, which is not there"
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path), f"{name_of(page)} links to {link}: no such heading"


def test_every_page_can_be_reached_from_the_index() -> None:
    seen, ahead = {INDEX}, [INDEX]
    while ahead:
        page = ahead.pop()
        targets = ((page.parent / link.partition("#")[0]).resolve() for link in links(page))
        for target in (INDEX if target.is_dir() else target for target in targets):
            if target.suffix == ".md" and target.exists() and target not in seen:
                seen.add(target)
                ahead.append(target)
    alone = [name_of(page) for page in PAGES if page not in seen and page.parent not in (ROOT, ADR)]
    assert not alone, f"no page links to {alone}; docs/README.md is the index"
