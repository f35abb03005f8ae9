"""Parents and their parts at the desk: how far each is, and a strip that shows every part [P10]."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from typing import Final

from windlass.core.progress import Look
from windlass.store.records import ParentRecord, PartRecord
from windlass.web.asking import Asking
from windlass.web.problems import NotFound
from windlass.web.shapes import ParentView, PartView
from windlass.web.strip import LETTERS, strip
from windlass.web.who import Role, Who
from windlass.words.parent_shapes import ParentShape, parent_fields, parent_shape, part_fields
from windlass.words.parts import Parts, look_at_parts
from windlass.words.waiting import state_in_words

MOST_PARTS: Final = 100_000
"""So many parts are looked at for a strip; a parent with more shows the first of them."""
MOST_LISTED: Final = 1_000
_SPAN: Final = 60.0
"""The rate of a parent is that of the last so many seconds."""
_PARENTS: Final = 500
"""Of so many parents earlier looks are remembered."""


class Families(Asking):
    """What can be seen of parents."""

    _looks: OrderedDict[int, list[Look]]

    async def parents(self, who: Who, active: bool = False, limit: int = 50) -> list[ParentShape]:
        """Parents, the one split last first; with `active` only those that have not ended."""
        who.must(Role.READ)
        limit = max(1, min(limit, 500))
        found = await self.shared(
            ("parents", active, limit), 1.0, lambda store: store.parents(active=active, limit=limit)
        )
        return [parent_shape(parent, *self._looked(parent)) for parent in found]

    async def parent(self, who: Who, id: int) -> ParentView:
        """One parent, with its strip and the parts that need attention. Raises NotFound."""
        who.must(Role.READ)
        found = await self.shared(("parent", id), 0.5, lambda store: store.parent(id))
        if found is None:
            raise NotFound(
                f"there is no parent {id}: its job was not split, was deleted, or its retention has passed"
            )
        parts = await self._parts(found)
        drawn, each = strip(parts.states)
        return ParentView(
            **parent_fields(found, *self._looked(found)),
            strip=drawn,
            strip_parts=len(parts.states),
            strip_each=each,
            letters={letter: str(state) for state, letter in LETTERS.items()},
            states={str(state): n for state, n in Counter(parts.states).items()},
            needing=[part_view(part) for part in parts.needing],
        )

    async def parts(self, who: Who, id: int, start: int = 0, limit: int = 100) -> list[PartView]:
        """Parts by index, from `start` on."""
        who.must(Role.READ)
        limit = max(1, min(limit, MOST_LISTED))
        found = await self.ask(lambda store: store.parts(id, start=max(start, 0), limit=limit))
        return [part_view(part) for part in found]

    async def _parts(self, parent: ParentRecord) -> Parts:
        """Shared for longer where there are many: the more a look costs, the less often it is taken."""
        ttl = 1.0 + min(parent.total, MOST_PARTS) / 5_000
        if parent.finished_at is not None:
            ttl += 10.0
        key = ("parts", parent.id, parent.finished_at)
        return await self.shared(key, ttl, lambda store: look_at_parts(store, parent.id, MOST_PARTS))

    def _looked(self, parent: ParentRecord) -> list[Look]:
        """The looks at a parent over the last minute, with this one."""
        looks: list[Look] = self._looks.pop(parent.id, [])
        now = time.time()
        if not looks or now - looks[-1][0] >= 1.0:
            looks.append((now, parent))
        else:
            looks[-1] = (looks[-1][0], parent)
        while len(looks) > 2 and looks[1][0] < now - _SPAN:
            del looks[0]
        self._looks[parent.id] = looks
        while len(self._looks) > _PARENTS:
            self._looks.popitem(last=False)
        return list(looks)


def part_view(part: PartRecord) -> PartView:
    """A part, and its state in words."""
    return PartView(**part_fields(part), state_text=state_in_words(part))
