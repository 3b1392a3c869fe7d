"""The program of a Django project that tests copy."""

from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "site_settings")

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
