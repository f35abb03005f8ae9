"""Commands made from operations: their arguments and options are the operation's, their text is what it says
was done, and --json prints what the API answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar, get_args, get_origin

import click
import msgspec

from windlass.cli.options import JobId, Reader, Span, job_ids, limit_option, with_json
from windlass.cli.output import print_json, print_table
from windlass.cli.settings import READERS, changes_of, setting_options
from windlass.cli.target import Target
from windlass.operations.operation import Operation, Param
from windlass.presentation.text import one_line
from windlass.store.fields import fields_of

R = TypeVar("R")


def command(
    operation: Operation[Any, R],
    show: Callable[[R], None] | None = None,
    ok: Callable[[R], bool] = lambda _: True,
) -> click.Command:
    """Return the command of an operation. `show` prints its answer, where that is more than a sentence. The
    exit code is 1 where the answer is not `ok`."""

    def run(target: Target, as_json: bool, **given: Any) -> None:
        for param in operation.params:
            if param.settings is not None:
                record = param.settings.record
                settings = {name: given.pop(name, None) for name in fields_of(record)}
                given[param.name] = changes_of(record, settings)
        answer, said = target.operate(operation, **given)
        if as_json:
            print_json(answer)
        elif show is not None:
            show(answer)
        else:
            click.echo(one_line(said))
        if not ok(answer):
            raise SystemExit(1)

    made = with_json(run)
    for param in reversed(operation.params):
        made = _parameter(param)(made)
    help = operation.help.replace(operation.summary, f"{operation.summary}.", 1)
    return click.command(operation.command, help=help)(made)


def table(columns: Sequence[str], row: Callable[[Any], Sequence[object]]) -> Callable[[msgspec.Struct], None]:
    """Return what prints a view, or a listing of views, as a table."""

    def show(answer: msgspec.Struct) -> None:
        first = getattr(answer, answer.__struct_fields__[0])
        print_table(columns, [row(each) for each in (first if isinstance(first, list) else [answer])])

    return show


def _parameter(param: Param) -> Callable[[Callable[..., None]], Callable[..., None]]:
    if param.settings is not None:
        return setting_options(param.settings.record)
    if param.name == "ids":
        return job_ids
    if param.name == "limit":
        return limit_option(param.default)
    kind, metavar = _reader(param)
    if param.default is msgspec.NODEFAULT:
        many = any(get_origin(each) is list for each in (param.type, *get_args(param.type)))
        return click.argument(
            param.name, type=kind, metavar=param.help.option or None, nargs=-1 if many else 1, required=True
        )
    flag, show = param.help.option or f"--{param.name.replace('_', '-')}", bool(param.default)
    if param.default is False:
        return click.option(flag, param.name, is_flag=True, help=param.help.text)
    return click.option(
        flag,
        param.name,
        type=kind,
        metavar=metavar,
        default=param.default,
        show_default=show,
        help=param.help.text,
    )


def _reader(param: Param) -> tuple[Reader, str | None]:
    types, bounds = _unfold(param.type)
    if param.help.unit == "time" and bounds.le is not None:
        return Span(most=bounds.le), READERS["time"][1]
    if param.help.unit is not None:
        return READERS[param.help.unit]
    if param.name == "id":
        return JobId(), "ID"
    if int in types:
        return click.IntRange(_whole(bounds.ge), _whole(bounds.le)), "N"
    return click.STRING, param.name.upper()


def _unfold(kind: Any) -> tuple[set[type], msgspec.Meta]:
    """Return the plain types that an annotation allows, and its bounds."""
    marks = getattr(kind, "__metadata__", ())
    bounds = next((each for each in marks if isinstance(each, msgspec.Meta)), msgspec.Meta())
    inner = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return set(get_args(inner)) or {inner}, bounds


def _whole(bound: float | None) -> int | None:
    return None if bound is None else int(bound)
