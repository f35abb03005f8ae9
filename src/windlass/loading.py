"""Finding an app by its address, `myapp:app` or `myapp.jobs:make_app()`, and the faster event loop where it
is."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import Callable

from windlass.app import Windlass
from windlass.errors import ConfigurationError
from windlass.worker.failures import message, place, type_name


def load_app(address: str) -> Windlass:
    """The app at this address. The current directory is searched first. Raises ConfigurationError."""
    module_name, _, attribute = address.partition(":")
    attribute = attribute or "app"
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigurationError(f"{module_name} cannot be imported: {_told(error)}") from error
        raise ConfigurationError(
            f"there is no module {module_name} here; give the app as module:attribute, from the directory "
            "that holds the module"
        ) from error
    except Exception as error:
        raise ConfigurationError(f"{module_name} cannot be imported: {_told(error)}") from error
    for name in attribute.removesuffix("()").split("."):
        try:
            found = getattr(found, name)
        except AttributeError as error:
            raise ConfigurationError(
                f"module {module_name} has no {name}; give the app as module:attribute"
            ) from error
    if attribute.endswith("()") and callable(found):
        try:
            found = found()
        except Exception as error:
            raise ConfigurationError(f"{address} cannot be made: {_told(error)}") from error
    if not isinstance(found, Windlass):
        raise ConfigurationError(f"{address} is {type(found).__name__}, not a Windlass app")
    return found


def _told(error: Exception) -> str:
    """What went wrong, and the line of the user's code where it did."""
    where = place(error)
    return f"{type_name(error)}: {message(error)}{f' ({where})' if where else ''}"


def prefer_uvloop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes event loops: uvloop's, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
