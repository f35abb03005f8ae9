"""The same app in a module that imports what large apps do: Django, SQLAlchemy, pydantic."""

from __future__ import annotations

import django.core.management
import django.db.models
import django.forms
import django.template
import django.views.generic
import pydantic
import sqlalchemy.orm

from bench.engine.starts.small import app

__all__ = ["app"]
IMPORTED = (django, pydantic, sqlalchemy)
