"""The text of a model, on its way to the job's stream [W3]."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any, Final

from pydantic_ai.messages import AgentStreamEvent, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.tools import RunContext

from windlass.contrib.pydantic_ai.operations import running_job

MAX_TEXT: Final = 8_000
"""Characters of one event, so that it stays below 64 KiB however JSON writes them."""


async def emit_text(run: RunContext[Any], events: AsyncIterable[AgentStreamEvent]) -> None:
    """Emit text as it comes, with the step that it belongs to; to nobody where no job runs."""
    job, first = running_job(), True
    async for event in events:
        match event:
            case (
                PartStartEvent(part=TextPart(content=text))
                | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
            ) if job is not None:
                for start in range(0, len(text), MAX_TEXT):
                    piece = text[start : start + MAX_TEXT]
                    await job.emit({"step": job._durable.inside, "first": first, "text": piece})
                    first = False
