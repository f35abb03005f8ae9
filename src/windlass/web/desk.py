"""The desk: everything that can be seen and done through Mission Control, for the API and the pages alike.

Each method begins with `who.must(role)`: the role is checked here, in the action, and not only at the door
[M5]. What many viewers ask for is read once a second and shared (see `windlass.web.memo`), counts are capped
and searches bounded, so that however many look, the database hardly notices. Answers are the shapes of
`windlass.words` and `windlass.web.shapes`, the former the same that commands print with --json.

Every action is told to the timeline as an event of kind `operator`, with the name of who did it.

    asking      the store, shared answers, the clock
    looking     queues, jobs, workers, events        families    parents and parts
    flowing     schedules, budgets, gates, tasks     overseeing  overview, measures, the store's health
    doing       what is done to jobs                 steering    what is done to everything else
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from windlass.web.bodies import Maker
from windlass.web.bulk import Bulks
from windlass.web.doing import Doing
from windlass.web.doorstep import Doorstep
from windlass.web.overseeing import Overseeing
from windlass.web.steering import Steering

if TYPE_CHECKING:
    from windlass.app import Windlass


class Desk(Overseeing, Steering, Doing):
    """Where the API and the pages look and act."""

    def __init__(self, app: Windlass) -> None:
        super().__init__(app)
        self._looks = OrderedDict()
        self._wal = None
        self._bulks = Bulks()
        self._doorstep = Doorstep()
        self._maker = Maker(app)
