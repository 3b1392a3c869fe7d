"""Settings of a project whose database and whose GOSCHEDULER come from the environment."""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import urlsplit

HERE = Path(__file__).parent
SECRET_KEY = "for tests"
DEBUG = True
ALLOWED_HOSTS = ["*"]
USE_TZ = True
TIME_ZONE = "Europe/Berlin"
ROOT_URLCONF = "shop.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions",
    "django.contrib.messages", "django.contrib.staticfiles", "goscheduler.contrib.django", "shop",
]  # fmt: skip
STATIC_URL = "/static/"
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware", "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware", "django.contrib.messages.middleware.MessageMiddleware",
]  # fmt: skip
TEMPLATES = [{
    "BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
    "OPTIONS": {"context_processors": [
        "django.template.context_processors.request", "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages",
    ]},
}]  # fmt: skip
TASKS = {
    "default": {"BACKEND": "goscheduler.contrib.django.tasks.Backend", "QUEUES": ["default", "mail"],
                "OPTIONS": {"retry": 2}},
}  # fmt: skip


def _database(url: str) -> dict[str, object]:
    place = urlsplit(url)
    if place.scheme.startswith("sqlite"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": place.path[1:]}
    if place.scheme.startswith("mysql"):
        import pymysql

        pymysql.install_as_MySQLdb()
    engine = "postgresql" if place.scheme.startswith("postgresql") else "mysql"
    return {
        "ENGINE": f"django.db.backends.{engine}", "NAME": place.path[1:], "USER": place.username,
        "PASSWORD": place.password, "HOST": place.hostname, "PORT": place.port,
    }  # fmt: skip


DATABASES = {
    "default": _database(os.environ["DATABASE"]),
    "other": {"ENGINE": "django.db.backends.sqlite3", "NAME": HERE / "other.db"},
}
OURS = {"GOSCHEDULER": {"STORE": "db:default", "AUTODISCOVER": "duties"}}
globals().update(json.loads(os.environ["SETTINGS"]) if "SETTINGS" in os.environ else OURS)
