"""Mission Control: what operators see and do in a browser, and what programs do over HTTP.

    request ─▶ guard (host, origin, who) ─▶ api or pages ─▶ service (role checked in the action) ─▶ store

`make_web` builds the ASGI app that `windlass web` serves and `app.web()` gives to be mounted. The API and the
pages both speak to the service alone, and the service to the store protocol: no SQL lives here.
"""

from windlass.operations.principal import Principal, Role

__all__ = ["Principal", "Role"]
