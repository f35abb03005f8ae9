"""The capability that an agent is given: where its operations are steps, and what their runs tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pydantic_ai.agent import EventStreamHandler
from pydantic_ai.capabilities.abstract import WrapModelRequestHandler, WrapRunHandler
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    DurabilityEngineSpec,
    DurableOperationBackend,
    conversation_id_from_run_id,
)
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import AgentDepsT, RunContext

from windlass.contrib.pydantic_ai.operations import Backend, StepOptions, running_job, short
from windlass.contrib.pydantic_ai.spending import count, settle
from windlass.contrib.pydantic_ai.stream import emit_text
from windlass.errors import ConfigurationError
from windlass.handles.budget import Budget
from windlass.running.context import current_context


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
        handler = emit_text if stream else event_stream_handler
        super().__init__(models=models, event_stream_handler=handler, name=name)
        self._emits_text: Final = stream
        self._budget_name: Final = budget if budget is None or isinstance(budget, str) else budget.name
        self._step_options: Final[Mapping[str, StepOptions]] = {"model": model or {}, "tool": tools or {}}

    @property
    def in_durable_context(self) -> bool:
        """Return whether a job runs here, and no step of it: what runs in a step is kept by that one."""
        job = running_job()
        return job is not None and job._durable.inside is None

    def get_default_run_id(self) -> str | None:
        """Names a run of the agent by the job, the agent and its number among those of this job."""
        if not self.in_durable_context:
            return None
        job = current_context()
        number = job._durable.numbered(short(f"{self.name} run")).partition("#")[2]
        return f"{job.id}:{self.name}{number and f' {number}'}"

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """Return an id that is the same in every run of the job."""
        return conversation_id_from_run_id(run_id) if self.in_durable_context else None

    def get_durable_operation_backend(self) -> DurableOperationBackend[StepOptions]:
        """Return the backend that runs the operations of the agent."""
        return Backend(self.name, self._step_options, self._paid, events=not self._emits_text)

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
            count(self._budget_name, response)
        return response

    async def wrap_run(self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Settles what the run has used however it ends, also where it only waits."""
        try:
            return await super().wrap_run(ctx, handler=handler)
        finally:
            await settle(self._budget_name)

    async def _paid(self, response: ModelResponse) -> None:
        """A request that is a step has been answered, in this run."""
        count(self._budget_name, response)
        await settle(self._budget_name)
