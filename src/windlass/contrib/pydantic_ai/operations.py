"""Each operation of an agent as a step of the job: what it is called, and which row is its own [W1].

A tool's call is named by the call's id, which a recorded response has made, so calls that run side by side
may begin in any order. Requests and the rest are numbered, as steps are. What failed leaves no row: where
another model has stepped in for one that failed, the numbers behind it may mean other operations in a later
run. So each row says after which response it was made, and a row that says another is passed over. It does
not say by which model: a deploy may change that, and what is paid for stays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypedDict

from pydantic_ai.durable_exec import (
    BoundDurableOperation,
    CapabilityOperationId,
    DurableOperation,
    DurableOperationBackend,
    EventStreamHandlerId,
    ModelRequestId,
    ToolsetCallToolId,
    ToolsetGetInstructionsId,
    ToolsetGetToolsId,
    ToolsetValidateToolArgumentsId,
    durable_unit_scope,
)
from pydantic_ai.messages import ModelResponse

from windlass.core.durations import Duration
from windlass.endings import Retry
from windlass.errors import ConfigurationError
from windlass.running.context import Context, current_context

MAX_NAME: Final = 180
"""Characters of a step's name before its number."""
Paid = Callable[[ModelResponse], Awaitable[None]]


class StepOptions(TypedDict, total=False):
    """How a step is tried again, within a run of the job: `retry` and `timeout`, as `ctx.step` takes them."""

    retry: Retry | None
    timeout: Duration | None


class Backend(DurableOperationBackend[StepOptions]):
    """Makes steps of the operations of the agent `name`, and tells `paid` of each response that is new."""

    def __init__(self, name: str, options: Mapping[str, StepOptions], paid: Paid, *, events: bool) -> None:
        self.name: Final = name
        self.options: Final = options
        self.paid: Final = paid
        self.events: Final = events
        """True if events of tools are operations; a handler that only looks for text has no use for them."""

    def bind(self, operation: DurableOperation[Any, Any, Any]) -> BoundDurableOperation[Any, Any, Any]:
        """The operation as the agent calls it."""
        return Operation(operation, self)

    def config_for_tool(
        self, operation: DurableOperation[Any, Any, Any], *, tool: Any, tool_name: str
    ) -> StepOptions | Literal[False]:
        """The options of a tool's steps: its own before those of all. False: it is no step."""
        own = None if tool is None else (tool.tool_def.metadata or {}).get("windlass")
        if own is None or own is False:
            return False if own is False else self.options["tool"]
        known = StepOptions.__optional_keys__
        if not isinstance(own, dict) or own.keys() - known:
            raise ConfigurationError(
                f"tool {tool_name}: its metadata 'windlass' is False or a dict of "
                f"{' and '.join(sorted(known))}, not {own!r}"
            )
        return {**self.options["tool"], **own}

    def registrations(self) -> Sequence[Callable[..., object]]:
        """Steps are made as they are called."""
        return ()


class Operation(BoundDurableOperation[Any, Any, Any]):
    """One operation of an agent."""

    def __init__(self, operation: DurableOperation[Any, Any, Any], backend: Backend) -> None:
        self._operation = operation
        self._backend = backend

    @property
    def operation(self) -> DurableOperation[Any, Any, Any]:
        """Return the operation that Pydantic AI has declared."""
        return self._operation

    async def __call__(self, params: Any, *, config: Any = None) -> Any:
        """Run it as a step, or give what its row holds."""
        backend, operation, job = self._backend, self._operation, current_context()
        if not job._is_on_loop:
            raise ConfigurationError(
                f"agent {backend.name!r} was run by a plain handler: its steps need the worker's event loop; "
                "write `async def` and `await agent.run(…)` in place of run_sync()"
            )
        if isinstance(operation.operation_id, EventStreamHandlerId) and not backend.events:
            return None
        fresh: list[Any] = []
        run = getattr(params, "ctx", None) or getattr(params, "run_context", None)
        row = {"after": _last(getattr(params, "messages", None) or (run.messages if run else []))}

        async def body() -> object:
            with durable_unit_scope():
                fresh.append(await operation.handler(params))
            return row | {"result": operation.result_codec.dump(fresh[-1])}

        agent = backend.name if run is None or run.run_id is None else run.run_id.removeprefix(f"{job.id}:")
        name = short(f"{agent}: {_subject(operation.operation_id, params)}")
        options = backend.options.get(operation.config_role, {}) if config is None else config
        found: dict[str, Any] = {}
        while not found or found | row != found:
            found = await job.step(name, recorded, body, **options)
        if isinstance(operation.operation_id, ModelRequestId):
            for response in fresh:
                await backend.paid(response)
        return operation.result_codec.load(found["result"])


async def recorded(body: Callable[[], Awaitable[object]]) -> Any:
    """Run the body of an agent's step. Rows of steps name it: whoever renames it strands jobs that wait."""
    return await body()


def running_job() -> Context | None:
    """The job that runs here, if one does."""
    try:
        return current_context()
    except RuntimeError:
        return None


def short(name: str) -> str:
    """A name that a step can have: no '#', and not too long."""
    name = name.replace("#", "-").replace("\0", "-")
    if len(name) <= MAX_NAME:
        return name
    return f"{name[: MAX_NAME - 17]} {hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _subject(id: object, params: Any) -> str:
    """Return the subject of a step."""
    words: list[str | None]
    match id:
        case ModelRequestId():
            words = ["model request"]
        case ToolsetCallToolId():
            words = ["tool", params.name, params.ctx.tool_call_id]
        case ToolsetValidateToolArgumentsId():
            words = ["arguments of", params.name, params.ctx.tool_call_id]
        case ToolsetGetToolsId(toolset_id=toolset):
            words = ["tools of", toolset]
        case ToolsetGetInstructionsId(toolset_id=toolset):
            words = ["instructions of", toolset]
        case EventStreamHandlerId():
            words = ["event", params.event.event_kind, getattr(params.event, "tool_call_id", None)]
        case CapabilityOperationId(capability_id=capability, operation=operation):
            words = [capability, operation]
        case _:  # the union grows: compaction, cancelling, and what comes
            words = [type(id).__name__]
    return " ".join(filter(None, words))


def _last(messages: Sequence[Any]) -> str | None:
    """The last response in a conversation, by its place and time: the same in each run that has its row."""
    responses = [message for message in messages if isinstance(message, ModelResponse)]
    return f"{len(responses)} {responses[-1].timestamp.isoformat()}" if responses else None
