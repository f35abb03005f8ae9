"""The commands about held jobs: gates lists where they wait [F3], watermarks how far keys have come [F6]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from windlass.cli.verbs import command, table
from windlass.operations import queues as operations
from windlass.operations.queues import GateView, WatermarkView
from windlass.presentation.text import capped, local_of, span

GATES: Final = ("gate", ">through", ">waiting", ">oldest", "each job there")
"""The columns of a gate wherever gates are listed; see `gate_row`."""
_MARKS: Final = ("key", ">position", "moved", ">waiting", ">age")


def gate_row(gate: GateView) -> Sequence[object]:
    """A gate as a row under GATES."""
    return gate.name, f"{gate.passes:,}", capped(gate.waiting), span(gate.oldest), gate.reason


def _row(mark: WatermarkView) -> Sequence[object]:
    age = span(mark.age) if mark.waiting else None
    return mark.key, f"{mark.position:,}", mark.at and local_of(mark.at), capped(mark.waiting), age


gates: Final = command(operations.list_gates, table(GATES, gate_row))
watermarks: Final = command(operations.list_watermarks, table(_MARKS, _row))
