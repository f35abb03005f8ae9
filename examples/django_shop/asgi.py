"""The shop as an ASGI app, with Mission Control at /windlass/ for staff."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "examples.django_shop.settings")
django = get_asgi_application()

from windlass.contrib.django.mission import with_mission_control  # noqa: E402 - once Django is set up

application = with_mission_control(django)
