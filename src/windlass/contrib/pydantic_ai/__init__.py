"""Pydantic AI agents whose model requests and tool calls are steps of a job [W1].

    from windlass.contrib.pydantic_ai import WindlassDurability

    agent = Agent("openai:gpt-5.2", name="research", capabilities=[WindlassDurability()])

    @app.task
    async def research(topic: str) -> str:
        return (await agent.run(f"Write about {topic}")).output

Inside a handler each response of the model and each result of a tool is kept by a step, so a run that comes
later, after a failure, a crash, a sleep or a wait, is given them and pays only for what is missing. Elsewhere
the agent is an ordinary one.

Built on Pydantic AI's interface for durable engines, which wraps models, tools and MCP servers, and carries
what tools raise for the agent as values. Here is what makes steps of its operations: their names, and which
row belongs to which operation. Everything runs in the handler's own process.

Needs `pip install 'windlass[pydantic-ai]'`.
"""

from windlass.errors import ConfigurationError

try:
    from windlass.contrib.pydantic_ai.durability import WindlassDurability
    from windlass.contrib.pydantic_ai.operations import StepOptions
except ImportError as _error:
    if not (_error.name or "").startswith("pydantic_ai"):
        raise
    raise ConfigurationError(
        "agents of Pydantic AI need pydantic-ai-slim 2.66 or newer: pip install 'windlass[pydantic-ai]'"
    ) from _error

__all__ = ["StepOptions", "WindlassDurability"]
