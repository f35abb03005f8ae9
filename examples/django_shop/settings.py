"""The project's settings. What is Windlass's stands at the end; the rest is what any small project has."""

import os
from typing import Any
from urllib.parse import unquote, urlsplit


def database(url: str) -> dict[str, Any]:
    """An entry of DATABASES from a URL."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": url.removeprefix("sqlite:///")}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": parts.port or "",
    }


SECRET_KEY = os.environ.get("SHOP_SECRET_KEY", "for trying it out only")
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "testserver"]
DATABASES = {"default": database(os.environ.get("SHOP_DATABASE_URL", "sqlite:///shop.db"))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
ROOT_URLCONF = "examples.django_shop.urls"
STATIC_URL = "static/"
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "examples.django_shop",
    "windlass.contrib.django",
]

TASKS = {
    "default": {
        "BACKEND": "windlass.contrib.django.WindlassBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {
            "database": os.environ.get("SHOP_JOBS_URL", "default"),
            "max_attempts": 3,
            "timeout": "1m",
        },
    }
}
MISSION_CONTROL_URL = "/windlass/"
