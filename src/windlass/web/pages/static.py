"""The files that pages need. An address with a mark of its content may be kept for good; the others, which
scripts import by name, are asked about again each time."""

from __future__ import annotations

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from windlass.web.pages.rendering import STATIC


class Files(StaticFiles):
    """Style sheets and scripts."""

    def __init__(self) -> None:
        super().__init__(directory=STATIC)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """A file, and for how long it may be kept."""
        answer = await super().get_response(path, scope)
        marked = scope.get("query_string", b"").startswith(b"v=") and answer.status_code == 200
        answer.headers["Cache-Control"] = "private, max-age=31536000, immutable" if marked else "no-cache"
        return answer
