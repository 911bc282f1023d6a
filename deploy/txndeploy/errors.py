"""Errors that whoever runs nodes is told."""

from __future__ import annotations


class ConfigError(Exception):
    """The configuration cannot be used; the message names the value and the rule."""


class StartError(Exception):
    """A process cannot start, or go on; the message says why and what to do."""
