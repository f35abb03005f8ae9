"""Golden files are as they were accepted, and leave nothing out: no verb, no route, no page."""

import functools
import json
import re
from collections.abc import Iterator
from itertools import pairwise

import click
import pytest

from tests.golden import catalogue
from tests.golden.__main__ import TRANSCRIPTS, accepted, difference, recorded
from tests.golden.desk import ROLES
from tests.golden.transcripts import FRESH, SAME
from windlass.cli import main
from windlass.web.pages import PAGES

ENDLESS = {"worker", "web", "demo", "copy"}
"""Verbs of which transcripts have only the help and refusals: they run on and on, or need PostgreSQL."""


@pytest.mark.parametrize("part", [*TRANSCRIPTS, "openapi", "names"])
def test_all_is_as_it_was_accepted(part: str) -> None:
    if told := difference(part, recorded(part)):
        pytest.fail(told, pytrace=False)


def test_the_catalogue_is_as_it_was_accepted(pg_dsn: str) -> None:
    if told := difference("sql", catalogue.recorded(pg_dsn)):
        pytest.fail(told, pytrace=False)


@functools.cache
def answers(part: str) -> list[tuple[list[str], str]]:
    """The lines of a part's transcripts in words, each with the first line of its answer."""
    lines = (pair for text in accepted(part).values() for pair in pairwise(text.split("\n")))
    return [(line[2:].split(), after) for line, after in lines if line.startswith((FRESH, SAME))]


def verbs(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with the words that lead to it."""
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), name)
            assert found is not None
            yield from verbs(found, *path, name)


def test_every_verb_is_there_with_its_help_in_words_and_in_json() -> None:
    lines = [words[1:] for words, _ in answers("cli")]
    for path, command in verbs(main):
        told = [words[len(path) :] for words in lines if tuple(words[: len(path)]) == path]
        assert ["--help"] in told, path
        if isinstance(command, click.Group) or path[0] in ENDLESS:
            continue
        assert any("--help" not in words and "--json" not in words for words in told), path
        assert any("--json" in words for words in told) or "json" not in str(command.params), path


def asked(part: str, method: str, path: str) -> set[bool]:
    """Tell of requests of this method to a path with {names}, whether some were refused and some not."""
    wanted = re.compile(re.sub(r"{\w+}", "[^/]+", path) + r"(\?.*)?")
    requests = [
        (words[1:] if words[0] in ROLES else words, int(status[:3])) for words, status in answers(part)
    ]
    return {status >= 400 for words, status in requests if words[0] == method and wanted.fullmatch(words[1])}


def test_every_route_is_there_with_what_it_answers_and_what_it_refuses() -> None:
    subjects = map(json.loads, accepted("openapi").values())
    routes = [
        (method.upper(), path)
        for subject in subjects
        for path, methods in subject.items()
        if path.startswith("/api")
        for method in methods
    ]
    assert len(routes) > 50
    for method, path in routes:
        assert asked("api", method, path) >= ({False} if method == "GET" else {False, True}), (method, path)


def test_every_page_and_form_is_there_with_what_it_refuses() -> None:
    for page in PAGES:
        wanted = {False} if page.method == "GET" else {False, True}
        assert asked("pages", page.method, page.path) >= wanted, page.path
