"""Unit tests are the same in every run: hypothesis draws from a fixed seed, and keeps no database."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("unit", derandomize=True, database=None, deadline=None)
settings.load_profile("unit")
