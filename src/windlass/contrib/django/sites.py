"""Windlass's pages on an admin site of your own.

class Admin(WindlassPages, AdminSite): ...

site = Admin(name="backoffice")         # or default_site = "shop.sites.Admin" in an AdminConfig
"""

from __future__ import annotations

from typing import Any


class WindlassPages:
    """A mixin for an `AdminSite`: registers the pages of jobs, dead jobs and queues with it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Not before: a site may be imported before Django's models are ready.
        from windlass.contrib.django.pages import PAGES

        site: Any = self
        for model, pages in PAGES.items():
            site.register(model, pages)
