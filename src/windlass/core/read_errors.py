"""The errors that reading foreign JSON may raise."""

from __future__ import annotations

from typing import Final

import msgspec

READ_ERRORS: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""A text that is malformed or of another shape, is no Unicode, or is nested more deeply than can be read."""
