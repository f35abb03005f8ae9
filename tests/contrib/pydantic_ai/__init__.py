"""Agents of Pydantic AI as jobs."""
