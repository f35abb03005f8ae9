"""The app's entry in INSTALLED_APPS: label `windlass`, so that admin pages and permissions are named after
it."""

from __future__ import annotations

from django.apps import AppConfig


class WindlassConfig(AppConfig):
    """`windlass.contrib.django` as Django knows it."""

    name = "windlass.contrib.django"
    label = "windlass"
    verbose_name = "Windlass"
    default_auto_field = "django.db.models.BigAutoField"
