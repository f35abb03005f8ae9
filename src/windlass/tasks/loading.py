"""Finding an app by its address, `myapp:app`, `myapp` or `myapp.jobs:make_app()`, and the faster event loop
where it is."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, TypeGuard

from windlass.errors import ConfigurationError
from windlass.running.failures import message, place, type_name
from windlass.tasks.registry import _Registry

if TYPE_CHECKING:
    from windlass.app import Windlass


def load_app(address: str) -> Windlass:
    """The app at this address; of a module alone, the one that it has. The current directory is searched
    first. Raises ConfigurationError."""
    module_name, _, attribute = address.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigurationError(f"{module_name} cannot be imported: {_error_text(error)}") from error
        plain = module_name.removesuffix(".py").replace("/", ".")
        meant = (
            f"{plain}:{attribute or 'app'}, as Python imports it"
            if plain != module_name
            else "module:attribute"
        )
        raise ConfigurationError(
            f"there is no module {module_name} here; give the app as {meant}, from the directory that holds "
            "the module"
        ) from error
    except Exception as error:
        raise ConfigurationError(f"{module_name} cannot be imported: {_error_text(error)}") from error
    return _named(module, attribute) if attribute else _only(module)


def _named(module: ModuleType, attribute: str) -> Windlass:
    found: object = module
    for name in attribute.removesuffix("()").split("."):
        try:
            found = getattr(found, name)
        except AttributeError as error:
            raise ConfigurationError(f"module {module.__name__} has no {name}; {_hint(module)}") from error
    address = f"{module.__name__}:{attribute}"
    if attribute.endswith("()") and callable(found):
        try:
            found = found()
        except Exception as error:
            raise ConfigurationError(f"{address} cannot be made: {_error_text(error)}") from error
    if not _is_app(found):
        raise ConfigurationError(f"{address} is {type(found).__name__}, not a Windlass app; {_hint(module)}")
    return found


def _only(module: ModuleType) -> Windlass:
    """The app of a module: the one called `app`, or the only one."""
    usual, apps = vars(module).get("app"), list(_apps(module).values())
    if _is_app(usual):
        return usual
    if len(apps) != 1:
        text = f"{len(apps)} Windlass apps" if apps else "no Windlass app"
        raise ConfigurationError(f"module {module.__name__} has {text}; {_hint(module)}")
    return apps[0]


def _apps(module: ModuleType) -> dict[str, Windlass]:
    """The apps that a module shows, each by its first name."""
    shown = {name: value for name, value in vars(module).items() if _is_app(value)}
    return {name: app for name, app in shown.items() if name == next(n for n in shown if shown[n] is app)}


def _hint(module: ModuleType) -> str:
    """Say what to type."""
    if found := [f"{module.__name__}:{name}" for name in _apps(module)]:
        return f"write {' or '.join(found)}"
    return f"give the app as module:attribute, one that a function makes as {module.__name__}:make_app()"


def _is_app(value: object) -> TypeGuard[Windlass]:
    """An app is the only registry that there is, and its module stands above this one."""
    return isinstance(value, _Registry)


def _error_text(error: Exception) -> str:
    """Return the error, and the line of the user's code that raised it."""
    where = place(error)
    return f"{type_name(error)}: {message(error)}{f' ({where})' if where else ''}"
