"""Finding an app by its address, and saying what is wrong with one that cannot be found."""

import itertools
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from windlass import Windlass
from windlass.errors import ConfigurationError
from windlass.tasks.loading import load_app

Write = Callable[[str], str]
numbers = itertools.count()


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write a module into the current directory; the answer is its name, which no other test uses."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = set(sys.modules)

    def write(text: str) -> str:
        name = f"loading_{next(numbers)}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    yield write
    for name in set(sys.modules) - known:
        if name.startswith("loading_"):
            del sys.modules[name]


APP = "from windlass import Windlass\n"


def test_an_app_is_found_by_its_address(write: Write) -> None:
    name = write(APP + "app = other = Windlass('sqlite:///:memory:')\nclass Shop:\n    jobs = app\n")
    found = load_app(f"{name}:app")
    assert isinstance(found, Windlass)
    for address in (name, f"{name}:", f"{name}:other", f"{name}:Shop.jobs"):
        assert load_app(address) is found


@pytest.mark.parametrize(
    "text",
    [
        "jobs = Windlass('sqlite:///:memory:')",
        "app = object()\njobs = again = Windlass('sqlite:///:memory:')",
        "jobs = Windlass('sqlite:///:memory:')\nother = Windlass('sqlite:///:memory:')\napp = jobs",
    ],
)
def test_a_module_alone_stands_for_its_app(write: Write, text: str) -> None:
    """`windlass worker shop`: the only app that it has, or the one called app."""
    name = write(APP + text)
    assert load_app(name) is load_app(f"{name}:jobs")


@pytest.mark.parametrize(
    ("text", "address", "says"),
    [
        (
            "one, two = Windlass('sqlite:///:memory:'), Windlass('sqlite:///:memory:')",
            "{}",
            "has 2 Windlass apps; write {0}:one or {0}:two",
        ),
        ("jobs = Windlass('sqlite:///:memory:')", "{}:app", "module {0} has no app; write {0}:jobs"),
        (
            "app = 5\njobs = Windlass('sqlite:///:memory:')",
            "{}:app",
            "{0}:app is int, not a Windlass app; write {0}:jobs",
        ),
        ("", "{}", "module {0} has no Windlass app; give the app as module:attribute"),
    ],
)
def test_what_to_type_is_said(write: Write, text: str, address: str, says: str) -> None:
    name = write(APP + text)
    with pytest.raises(ConfigurationError, match=re.escape(says.format(name))):
        load_app(address.format(name))


def test_an_app_can_be_made(write: Write) -> None:
    name = write(APP + "def make_app():\n    return Windlass('sqlite:///:memory:')\n")
    assert isinstance(load_app(f"{name}:make_app()"), Windlass)


@pytest.mark.parametrize(
    ("text", "attribute", "says"),
    [
        ("app = 5", "app", "is int, not a Windlass app"),
        ("", "app", "has no app; give the app as module:attribute"),
        (APP + "def make_app(): ...", "make_app()", "is NoneType, not a Windlass app"),
        (APP + "def make_app(): ...", "make_app", "is function, not a Windlass app"),
        (
            "import no_such_thing",
            "app",
            r"ModuleNotFoundError: No .*'no_such_thing' \(loading_\d+\.py, line 1\)",
        ),
        ("1 / 0", "app", r"cannot be imported: ZeroDivisionError: .* \(loading_\d+\.py, line 1\)"),
        ("\nimport json\njson.loads('')", "app", r"JSONDecodeError: .* \(loading_\d+\.py, line 3\)"),
        ("app = 1\nfor", "app", r"SyntaxError: .* \(loading_\d+\.py, line 2\)"),
        (
            "def make_app():\n    raise OSError('no file')",
            "make_app()",
            r"cannot be made: OSError: no file \(loading_\d+\.py, line 2\)",
        ),
    ],
)
def test_what_is_wrong_is_said(write: Write, text: str, attribute: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as found:
        load_app(f"{write(text)}:{attribute}")
    assert found.value.__cause__ is not None or "not a Windlass" in says


def test_a_module_that_is_not_there_is_named(write: Write) -> None:
    for address in ("no_such_module:app", "no_such_package.jobs:app"):
        with pytest.raises(ConfigurationError, match="there is no module no_such_"):
            load_app(address)
    with pytest.raises(
        ConfigurationError, match=r"give the app as src\.shop\.jobs:app, as Python imports it"
    ):
        load_app("src/shop/jobs.py")
    for address in ("", ":app", "../app:app", "my-app.py"):
        with pytest.raises(ConfigurationError):
            load_app(address)
