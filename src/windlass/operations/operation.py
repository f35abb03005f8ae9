"""An operation and what it is handed: the store, the answers that many readers share, and a place for its
audit entry. `Operation.params` says how a route, a command or a form reads its arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Concatenate,
    Final,
    Generic,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeVar,
    get_type_hints,
)

import msgspec

from windlass.core import ids
from windlass.core.names import MAX_LENGTH
from windlass.errors import InvalidOption
from windlass.operations.principal import Principal, Role
from windlass.presentation.audit import AuditEntry, record
from windlass.presentation.cluster_state import ClusterState, read_full_state
from windlass.presentation.text import one_line
from windlass.store.fields import Unit
from windlass.store.protocol import Store

if TYPE_CHECKING:
    from windlass.app import Windlass

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
_IN_PATH: Final = re.compile(r"\{(\w+)\}")
STATE_TTL: Final = 1.0
"""Seconds for which readers share the state that most views begin with."""
MAX_AT_ONCE: Final = 1_000
"""Jobs that one request may enqueue or name."""
CODE: Final = Principal("code", Role.OPERATE)
"""A program that calls a handle: what it does is not recorded [K11]."""

Limit = Annotated[int, msgspec.Meta(ge=1, le=500)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_LENGTH, pattern=r"^[a-z0-9_.-]+$")]
Text = Annotated[str, msgspec.Meta(max_length=255)]
Ids = Annotated[Sequence[int], msgspec.Meta(min_length=1, max_length=MAX_AT_ONCE)]
"""Jobs. JSON has their ids as texts."""
JobId = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,19}$", description="The id of a job.")]


def given_id(word: str) -> int:
    """Return an id in a body or a query. Raises InvalidOption for what can be none."""
    id = ids.read(word)
    if id is None:
        raise InvalidOption(f"{word[:40]!r} is not a job id; listings show them")
    return id


class Reads(Protocol):
    """Answers that the readers of a server share."""

    @property
    def memory(self) -> dict[Hashable, Any]:
        """Return the memory that operations keep for later ones, such as earlier readings."""

    async def shared(
        self, key: Hashable, ttl: float, read: Callable[[Store], Awaitable[T]], *, lasting: bool = False
    ) -> T:
        """Return the answer to a read, at most `ttl` seconds old. No action changes a `lasting` one."""

    async def now(self) -> float:
        """Return the time of the store's clock."""

    def in_words(self, error: Exception) -> str:
        """Return what readers may see of an error."""


class Server(Reads, Protocol):
    """A server in which operations run."""

    async def done(self, principal: Principal, *deeds: AuditEntry) -> None:
        """Record what somebody did, and let readers read again."""


class Ops:
    """The context of an operation: the app, the store, and who asks."""

    def __init__(
        self, app: Windlass, store: Store, principal: Principal, reads: Server | None = None
    ) -> None:
        self.app: Final = app
        self.store: Final = store
        self.principal: Final = principal
        self._reads = reads
        self.memory: Final[dict[Hashable, Any]] = {} if reads is None else reads.memory
        """The memory that operations keep for later ones."""
        self.deeds: Final[list[AuditEntry]] = []
        """The entries for the timeline."""
        self.said: str = ""
        """The sentence that tells the operator what was done."""

    async def shared(
        self, key: Hashable, ttl: float, read: Callable[[Store], Awaitable[T]], *, lasting: bool = False
    ) -> T:
        """Read from the store, or take what another reader was answered within `ttl` seconds. An action makes
        readers read again, unless the answer is `lasting`."""
        if self._reads is None:
            return await read(self.store)
        return await self._reads.shared(key, ttl, read, lasting=lasting)

    async def state(self) -> ClusterState:
        """Return how queues, workers, budgets and gates stand, shared for a moment."""
        return await self.shared("state", STATE_TTL, read_full_state)

    async def now(self) -> float:
        """Return the time of the store's clock."""
        return await (self.store if self._reads is None else self._reads).now()

    def in_words(self, error: Exception) -> str:
        """Return what readers may see of an error."""
        return one_line(str(error)) if self._reads is None else self._reads.in_words(error)

    def kept(self, kind: Callable[[Windlass], T]) -> T:
        """Return what the first operation to ask made of the app, and later ones of this server share."""
        if kind not in self.memory:
            self.memory[kind] = kind(self.app)
        made: T = self.memory[kind]
        return made

    async def later(self, work: Callable[[Ops], Awaitable[T]]) -> T:
        """Do something for the same principal when this operation has ended."""

        async def asked(store: Store) -> T:
            return await work(Ops(self.app, store, self.principal, self._reads))

        return await self.app._store_handle().acall(asked)

    async def tell(self, deed: AuditEntry) -> None:
        """Record what was done after the answer, or in spite of an error."""
        if self.principal is CODE:
            return
        if self._reads is None:
            await record(self.store, [deed], self.principal.name)
        else:
            await self._reads.done(self.principal, deed)

    def stop(self, jobs: Iterable[int]) -> None:
        """Tell the workers of this process at once that these running jobs are to stop."""
        self.app._store_handle().notify_cancelled(frozenset(jobs))

    def did(
        self, text: str, *, said: str = "", job: int | None = None, queue: str = "", task: str = ""
    ) -> None:
        """Record what was done: `text` for the timeline, `said` for the operator."""
        self.deeds.append(AuditEntry(text, job, queue, task))
        self.said = said or text


class Settings(NamedTuple):
    """Marks an argument that holds changes of settings: `Annotated[Mapping, Settings(NewBudget)]`."""

    record: type[msgspec.Struct]


class Sent(NamedTuple):
    """Marks an argument that a request has as this record, and what reads it."""

    record: type[msgspec.Struct]
    read: Callable[[Any], Any]


class Help(NamedTuple):
    """The help of an argument in a command, and how people write it there."""

    text: str
    unit: Unit | None = None
    option: str = ""
    """The flag, or how an argument without one is shown, where that is not made of the name."""


class Removed(msgspec.Struct, frozen=True):
    """The name that was removed."""

    removed: str


class Param(msgspec.Struct, frozen=True):
    """An argument of an operation."""

    name: str
    type: Any
    default: Any
    """msgspec.NODEFAULT where it must be given."""
    in_path: bool
    settings: Settings | None
    sent: Sent | None
    help: Help

    @property
    def is_body(self) -> bool:
        """Return whether it is the body of a request as a whole, and not one field of it."""
        return isinstance(self.type, type) and issubclass(self.type, msgspec.Struct)


class Operation(Generic[P, R]):
    """One operation. Calling it runs it with an `Ops`; who asks was checked before, by `role`."""

    def __init__(
        self,
        function: Callable[Concatenate[Ops, P], Awaitable[R]],
        *,
        subject: str,
        role: Role,
        method: str,
        path: str,
        status: int,
    ) -> None:
        self.function: Final = function
        self.name: Final = function.__name__
        verb, _, what = self.name.partition("_")
        self.command: Final = what if verb == "list" else verb
        """Its command: `budgets` of `list_budgets`, `drain` of `drain_budget`."""
        self.subject: Final = subject
        self.role: Final = role
        self.method: Final = method
        self.path: Final = path
        """Its address below /api; empty where it has none."""
        self.status: Final = status
        self.help: Final = inspect.getdoc(function) or ""
        self.summary: Final = self.help.partition("\n")[0]

    @property
    def answer(self) -> Any:
        """Return the type of its answer."""
        return self._hints["return"]

    @cached_property
    def params(self) -> tuple[Param, ...]:
        """Return its arguments. They are read when a route or a command is made, as programs need neither."""
        named = _IN_PATH.findall(self.path)
        parameters = list(inspect.signature(self.function).parameters.values())[1:]
        return tuple(_param(each, self._hints[each.name], named) for each in parameters)

    @cached_property
    def _hints(self) -> Mapping[str, Any]:
        return get_type_hints(self.function, include_extras=True)

    async def __call__(self, ops: Ops, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.function(ops, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<Operation {self.name}>"


class Subject(list[Operation[Any, Any]]):
    """The operations of a subject. Each decorator names the method and path of the operation's route."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name: Final = name

    def get(self, path: str = "") -> Declaration:
        """Declare a view. One without a path has no route; pages and commands call it."""
        return Declaration(self, "GET", path, Role.READ)

    def post(self, path: str, status: int = 200, role: Role = Role.OPERATE) -> Declaration:
        """Declare an action."""
        return Declaration(self, "POST", path, role, status)

    def put(self, path: str) -> Declaration:
        """Declare a change of settings."""
        return Declaration(self, "PUT", path)

    def patch(self, path: str) -> Declaration:
        """Declare a change of a part of what is there."""
        return Declaration(self, "PATCH", path)

    def delete(self, path: str) -> Declaration:
        """Declare a removal."""
        return Declaration(self, "DELETE", path)

    def command(self) -> Declaration:
        """Declare an action that has a command and no route."""
        return Declaration(self, "", "")


class Declaration:
    """A decorator that makes a function an operation of a subject."""

    def __init__(
        self, subject: Subject, method: str, path: str, role: Role = Role.OPERATE, status: int = 200
    ) -> None:
        self._subject = subject
        self._method = method
        self._path = path
        self._role = role
        self._status = status

    def __call__(self, function: Callable[Concatenate[Ops, P], Awaitable[R]]) -> Operation[P, R]:
        made = Operation(
            function,
            subject=self._subject.name,
            role=self._role,
            method=self._method,
            path=self._path,
            status=self._status,
        )
        self._subject.append(made)
        return made


def _param(parameter: inspect.Parameter, kind: Any, in_path: list[str]) -> Param:
    marks = getattr(kind, "__metadata__", ())
    return Param(
        name=parameter.name,
        type=kind,
        default=msgspec.NODEFAULT if parameter.default is inspect.Parameter.empty else parameter.default,
        in_path=parameter.name in in_path,
        settings=next((each for each in marks if isinstance(each, Settings)), None),
        sent=next((each for each in marks if isinstance(each, Sent)), None),
        help=next((each for each in marks if isinstance(each, Help)), Help("")),
    )
