"""The settings of a queue, a task and a budget and the options of a job, from the entries that everything
else is made from."""

from tests.docs.reference.tables import code, table
from windlass.store.fields import Field, NewBudget, QueueSettings, TaskRecord, fields_of
from windlass.store.records import JOB_OPTIONS


def of_queues() -> str:
    """A table of the settings of a queue."""
    rows = [
        (code(field.name), _default(field), field.unit, _what(field), field.when)
        for field in fields_of(QueueSettings).values()
    ]
    return table(("setting", "default", "unit", "what it does", "change it when"), rows)


def of_tasks() -> str:
    """A table of the settings of a task."""
    rows = [(code(field.name), field.unit, _what(field)) for field in fields_of(TaskRecord).values()]
    return table(("setting", "unit", "what it does"), rows)


def of_budgets() -> str:
    """A table of the options of a budget."""
    rows = [(code(field.name), _default(field), _what(field)) for field in fields_of(NewBudget).values()]
    return table(("option", "default", "what it does"), rows)


def of_jobs() -> str:
    """A table of the options of a job."""
    rows = [
        (code(field.name), field.default_text or "none", _what(field), field.when)
        for field in JOB_OPTIONS.values()
    ]
    return table(("option", "default", "what it does", "use it when"), rows)


def _what(field: Field) -> str:
    return f"{field.help} {field.more}".strip()


def _default(field: Field) -> str:
    if field.default is not None and field.kind is not bool:
        return code(field.default_text)
    return field.default_text or "required"
