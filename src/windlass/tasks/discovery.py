"""Imports modules for the tasks they register [K9]. A package is imported with everything below it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable

from windlass.errors import ConfigurationError
from windlass.running.failures import message, place, type_name


def import_all(names: Iterable[str]) -> None:
    """Import these modules, and of a package each module below it. Raises ConfigurationError with the name
    of the one that failed and its error as the cause."""
    for name in names:
        _import(name)


def _import(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigurationError(
                f"cannot discover tasks: there is no module {error.name}; check the name, and that Python is "
                "started where it can import it (PYTHONPATH)"
            ) from error
        raise _failed(name, error) from error
    except (Exception, SystemExit) as error:
        raise _failed(name, error) from error
    path = getattr(module, "__path__", None)
    if path is None:
        return
    for found in pkgutil.iter_modules(path, f"{name}."):
        if not found.name.endswith(".__main__"):  # importing that would run the program
            _import(found.name)


def _failed(name: str, error: BaseException) -> ConfigurationError:
    where = place(error)
    return ConfigurationError(
        f"cannot discover tasks: module {name} fails to import with {type_name(error)}: {message(error)}"
        f"{f' ({where})' if where else ''}"
    )
