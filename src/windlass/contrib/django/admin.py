"""Registers Windlass's pages with Django's default admin site, which imports this module. A site of your own
gets them by `sites.WindlassPages`."""

from __future__ import annotations

from django.contrib import admin

from windlass.contrib.django.pages import PAGES

for model, pages in PAGES.items():
    if not admin.site.is_registered(model):  # it may be of your own class, with the pages
        admin.site.register(model, pages)
