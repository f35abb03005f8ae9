"""Pydantic AI agents whose model requests and tool calls are steps of a job [W1].

    from windlass.contrib.pydantic_ai import WindlassDurability

    agent = Agent("openai:gpt-5.2", name="research", capabilities=[WindlassDurability()])

    @app.task
    async def research(ctx: Context, topic: str) -> str:
        return (await agent.run(f"Write about {topic}")).output

Inside a handler each response of the model and each result of a tool is kept by a step, so a run that comes
later, after a failure, a crash, a sleep or a wait, is given them and pays only for what is missing. Elsewhere
the agent is an ordinary one.

Built on Pydantic AI's interface for durable engines, which wraps models, tools and MCP servers, and carries
what tools raise for the agent as values. Here is what makes steps of its operations: their names, and which
recorded response belongs to which request. Everything runs in the handler's own process.

Needs `pip install 'windlass[pydantic-ai]'`.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, TypedDict
from weakref import WeakKeyDictionary

from windlass.core.durations import Duration
from windlass.errors import ConfigurationError
from windlass.handles.budget import Budget
from windlass.running.context import Context, current_context
from windlass.running.steps import Steps
from windlass.signals import Retry

try:
    from pydantic_ai.agent import EventStreamHandler
    from pydantic_ai.capabilities.abstract import WrapModelRequestHandler, WrapRunHandler
    from pydantic_ai.durable_exec import (
        JSON_CODEC,
        BaseDurabilityCapability,
        BoundDurableOperation,
        CapabilityOperationId,
        DurabilityEngineSpec,
        DurableOperation,
        DurableOperationBackend,
        EventStreamHandlerId,
        ModelRequestId,
        ToolsetCallToolId,
        ToolsetGetInstructionsId,
        ToolsetGetToolsId,
        ToolsetValidateToolArgumentsId,
        conversation_id_from_run_id,
        durable_unit_scope,
    )
    from pydantic_ai.messages import (
        AgentStreamEvent,
        ModelResponse,
        PartDeltaEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
    )
    from pydantic_ai.models import Model, ModelRequestContext
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.tools import AgentDepsT, RunContext
except ImportError as _error:
    raise ConfigurationError(
        "agents of Pydantic AI need pydantic-ai-slim 2.66 or newer: pip install 'windlass[pydantic-ai]'"
    ) from _error

__all__ = ["StepOptions", "WindlassDurability"]

MAX_NAME: Final = 180
"""Characters of a step's name before its number."""
MAX_TEXT: Final = 8_000
"""Characters of one event, so that it stays below 64 KiB however JSON writes them."""


class StepOptions(TypedDict, total=False):
    """How a step is tried again, within a run of the job: `retry` and `timeout`, as `ctx.step` takes them."""

    retry: Retry | None
    timeout: Duration | None


class WindlassDurability(BaseDurabilityCapability[AgentDepsT]):
    """A capability that makes steps of an agent's model requests and tool calls, wherever a job runs it.

    `model` and `tools` say how these steps are tried again, and how long they may take. One tool's metadata
    may say it for that tool, `metadata={"windlass": {"timeout": "30s"}}`, or `{"windlass": False}` for a tool
    that has steps, sleeps and waits of its own: then it is called again by each run.

    With `stream=True` the text of the model goes to the job's stream as it comes [W3], as
    `{"step": …, "first": …, "text": …}`; `first` is true where the text of that step begins, or begins anew.
    An `event_stream_handler` sees the model's events in its step, and each event of a tool in one of its own.

    `budget` names the budget that the tokens of this agent's requests are settled with, all those that this
    run of the job has paid for [F1].

    `name` stands in the names of steps instead of the agent's. `models` are those that a run may switch to
    besides the agent's own, by key; a model's name as a string needs no entry.
    """

    engine_spec: ClassVar[DurabilityEngineSpec] = DurabilityEngineSpec(
        engine_name="Windlass",
        durable_unit_noun="step",
        durable_container_noun="job",
        codec=JSON_CODEC,
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
        toolset_lifecycles={
            "function": "enter-always",
            "mcp": "enter-in-durable-unit",  # a run that finds everything recorded connects to no server
            "dynamic": "enter-never",
        },
        tool_config_key="windlass",
    )

    def __init__(
        self,
        *,
        stream: bool = False,
        budget: str | Budget | None = None,
        model: StepOptions | None = None,
        tools: StepOptions | None = None,
        models: Mapping[str, Model] | None = None,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
        name: str | None = None,
    ) -> None:
        if stream and event_stream_handler is not None:
            raise ConfigurationError(
                "WindlassDurability takes stream=True or an event_stream_handler, which may emit text itself"
            )
        handler = _emit_text if stream else event_stream_handler
        super().__init__(models=models, event_stream_handler=handler, name=name)
        self._emits_text: Final = stream
        self._budget_name: Final = budget if budget is None or isinstance(budget, str) else budget.name
        self._step_options: Final[Mapping[str, StepOptions]] = {"model": model or {}, "tool": tools or {}}

    @property
    def in_durable_context(self) -> bool:
        """Whether a job runs here, and no step of it: what runs in a step is kept by that one."""
        job = _job()
        return job is not None and job._durable.inside is None

    def get_default_run_id(self) -> str | None:
        """Names a run of the agent by the job, the agent and its number among those of this job."""
        if not self.in_durable_context:
            return None
        job = current_context()
        number = job._durable.numbered(_short(f"{self.name} run")).partition("#")[2]
        return f"{job.id}:{self.name}{number and f' {number}'}"

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """The same in every run of the job."""
        return conversation_id_from_run_id(run_id) if self.in_durable_context else None

    def get_durable_operation_backend(self) -> DurableOperationBackend[StepOptions]:
        """What runs the operations of the agent."""
        return _Backend(self)

    async def wrap_model_request(
        self,
        ctx: RunContext[AgentDepsT],
        *,
        request_context: ModelRequestContext,
        handler: WrapModelRequestHandler,
    ) -> ModelResponse:
        """Counts the requests of an agent that runs in a step; those that are steps count themselves."""
        response = await super().wrap_model_request(ctx, request_context=request_context, handler=handler)
        if not self.in_durable_context:
            _count(self._budget_name, response)
        return response

    async def wrap_run(self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Settles what the run has used however it ends, also where it only waits."""
        try:
            return await super().wrap_run(ctx, handler=handler)
        finally:
            await _settle(self._budget_name)


@dataclass
class _Spending:
    """Tokens of one budget that one run of a job has used, and what the budget was told."""

    tokens: int = 0
    said: int | None = None


_spent: Final[WeakKeyDictionary[Steps, dict[str, _Spending]]] = WeakKeyDictionary()


def _spending(job: Context, budget: str) -> _Spending:
    return _spent.setdefault(job._durable, {}).setdefault(budget, _Spending())


def _count(budget: str | None, response: ModelResponse) -> None:
    """Count a response that this run of the job has paid for."""
    if budget is not None and (job := _job()) is not None:
        _spending(job, budget).tokens += response.usage.total_tokens


async def _settle(budget: str | None) -> None:
    """Tell the budget, unless it knows."""
    if budget is None or (job := _job()) is None:
        return
    spending = _spending(job, budget)
    if spending.said != (tokens := spending.tokens):
        await job.aspent(budget, tokens)
        spending.said = tokens


class _Backend(DurableOperationBackend[StepOptions]):
    """Makes a step of each operation."""

    def __init__(self, durability: WindlassDurability[Any]) -> None:
        self._durability = durability

    def bind(self, operation: DurableOperation[Any, Any, Any]) -> BoundDurableOperation[Any, Any, Any]:
        return _Operation(operation, self._durability)

    def config_for_tool(
        self, operation: DurableOperation[Any, Any, Any], *, tool: Any, tool_name: str
    ) -> StepOptions | Literal[False]:
        own = None if tool is None else (tool.tool_def.metadata or {}).get("windlass")
        if own is False:
            return False
        unknown = own if own is not None and not isinstance(own, dict) else (own or {}).keys() - _OPTIONS
        if unknown:
            raise ConfigurationError(
                f"tool {tool_name}: its metadata 'windlass' is False or a dict of {' and '.join(_OPTIONS)}, "
                f"not {own!r}"
            )
        return {**self._durability._step_options["tool"], **(own or {})}

    def registrations(self) -> Sequence[Callable[..., object]]:
        return ()


_OPTIONS: Final = ("retry", "timeout")


class _Operation(BoundDurableOperation[Any, Any, Any]):
    """One operation of an agent, as a step."""

    def __init__(
        self, operation: DurableOperation[Any, Any, Any], durability: WindlassDurability[Any]
    ) -> None:
        self._operation = operation
        self._durability = durability

    @property
    def operation(self) -> DurableOperation[Any, Any, Any]:
        return self._operation

    async def __call__(self, params: Any, *, config: Any = None) -> Any:
        id = self._operation.operation_id
        if isinstance(id, EventStreamHandlerId) and self._durability._emits_text:
            return None  # an event of a tool has no text of the model
        if isinstance(id, ModelRequestId):
            return await self._respond(id, params)

        async def body() -> object:
            with durable_unit_scope():
                return self._operation.result_codec.dump(await self._operation.handler(params))

        options = config or self._durability._step_options.get(self._operation.config_role, {})
        name = self._name(_subject(id, params), params)
        return self._operation.result_codec.load(
            await current_context().step(name, recorded, body, **options)
        )

    async def _respond(self, id: ModelRequestId, params: Any) -> ModelResponse:
        """A request of the model. Its row says which response the request came after, and of which model it
        was: a request that failed leaves no row, so where another model has stepped in for it, the numbers of
        those behind it may be others in a later run. A row of another request is passed over."""
        fresh: list[ModelResponse] = []
        place = {"model": id.model_id, "after": _last(params.messages)}

        async def body() -> object:
            with durable_unit_scope():
                fresh.append(await self._operation.handler(params))
            return {**place, "response": self._operation.result_codec.dump(fresh[0])}

        job = current_context()
        name = self._name("model request", params)
        while True:
            found = await job.step(name, recorded, body, **self._durability._step_options["model"])
            if {**found, **place} == found:
                break
        if fresh:
            _count(self._durability._budget_name, fresh[0])
            await _settle(self._durability._budget_name)
        response: ModelResponse = self._operation.result_codec.load(found["response"])
        return response

    def _name(self, subject: str, params: Any) -> str:
        """The name of a step: the run of the agent, and what it is about."""
        run = getattr(params, "ctx", None) or getattr(params, "run_context", None)
        prefix = f"{current_context().id}:"
        name = self._durability.name if run is None or run.run_id is None else run.run_id.removeprefix(prefix)
        return _short(f"{name}: {subject}")


async def recorded(body: Callable[[], Awaitable[object]]) -> Any:
    """What every step of an agent runs. Rows of steps name it: whoever renames it strands jobs that wait."""
    return await body()


def _subject(id: object, params: Any) -> str:
    """What a step is about. A tool's call is named by its id, which the model's response has made: calls that
    run side by side may begin in any order."""
    match id:
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
    """The last response in a request's messages, by its place and time."""
    responses = [message for message in messages if isinstance(message, ModelResponse)]
    return f"{len(responses)} {responses[-1].timestamp.isoformat()}" if responses else None


def _short(name: str) -> str:
    """A name that a step can have: no '#', and not too long."""
    name = name.replace("#", "-").replace("\0", "-")
    if len(name) <= MAX_NAME:
        return name
    return f"{name[: MAX_NAME - 17]} {hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _job() -> Context | None:
    """The job that runs here."""
    try:
        return current_context()
    except RuntimeError:
        return None


async def _emit_text(run: RunContext[Any], events: AsyncIterable[AgentStreamEvent]) -> None:
    """Emit the text of a model as it comes, with the step that it belongs to."""
    job, first = _job(), True
    async for event in events:
        match event:
            case PartStartEvent(part=TextPart(content=text)):
                pass
            case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                pass
            case _:
                continue
        for start in range(0, len(text) if job else 0, MAX_TEXT):
            assert job is not None
            piece = text[start : start + MAX_TEXT]
            await job.emit({"step": job._durable.inside, "first": first, "text": piece})
            first = False
