"""The desk: everything that can be seen and done through Mission Control, for the API and the pages alike.

Each method begins with `who.must(role)`: the role is checked here, in the action, and not only at the door
[M5]. What many viewers ask for is read once a second and shared (see `windlass.web.memo`), counts are capped
and searches bounded, so that however many look, the database hardly notices. Answers are the shapes of
`windlass.words.shapes`, the same that commands print with --json.

Every action is told to the timeline as an event of kind `operator`, with the name of who did it.
"""

from __future__ import annotations
