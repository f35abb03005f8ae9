"""The version of the installed package, kept in one place: pyproject.toml."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("windlass")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+source"
