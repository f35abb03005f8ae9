"""Tasks are found by importing modules and everything below packages [K9]."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass import Windlass
from windlass.errors import ConfigurationError

APP = "from windlass import Windlass\napp = Windlass('sqlite:///:memory:')\n"
TASK = "from {package}.home import app\n@app.task\ndef {name}() -> None: ...\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that modules can be imported from, forgotten after the test."""
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def app_of(package: str) -> Windlass:
    app = sys.modules[f"{package}.home"].app
    assert isinstance(app, Windlass)
    return app


def test_k9_a_package_is_imported_with_all_below_it(folder: Path) -> None:
    write(
        folder,
        {
            "shop/__init__.py": "",
            "shop/home.py": APP,
            "shop/orders.py": TASK.format(package="shop", name="ship"),
            "shop/deep/__init__.py": "",
            "shop/deep/down.py": TASK.format(package="shop", name="dig"),
            "shop/__main__.py": "raise SystemExit('the program ran')\n",
            "billing.py": TASK.format(package="shop", name="bill"),
        },
    )
    __import__("shop.home")
    app = app_of("shop")
    assert app.discover("billing") == ["billing.bill"]
    assert app.discover("shop") == ["shop.deep.down.dig", "shop.orders.ship"]
    assert app.discover("shop", "billing") == []
    own = {name for name in app.tasks if not name.startswith("windlass.")}
    assert own == {"billing.bill", "shop.deep.down.dig", "shop.orders.ship"}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("import no_such_library", "no_such_library"),
        ("import sys; sys.exit(3)", "SystemExit"),
        ("def broken(:", "SyntaxError"),
    ],
)
def test_k9_a_module_that_fails_is_named_with_its_cause(
    app: Windlass, folder: Path, line: str, reason: str
) -> None:
    write(folder, {"shop/__init__.py": "", "shop/bad.py": line + "\n"})
    with pytest.raises(ConfigurationError, match=r"module shop\.bad fails") as caught:
        app.discover("shop")
    assert reason in str(caught.value)
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("name", ["no_such_shop", "no_such_shop.tasks", "shop.nothing"])
def test_k9_a_module_that_does_not_exist_is_told_apart(app: Windlass, folder: Path, name: str) -> None:
    write(folder, {"shop/__init__.py": ""})
    with pytest.raises(ConfigurationError, match="there is no module"):
        app.discover(name)
