"""Locations as Spark takes them."""

from __future__ import annotations

from urllib.parse import unquote


def hadoop_path(uri: str) -> str:
    """A URI as Hadoop's Path reads it: it takes escapes literally, where URIs everywhere else have them decoded."""
    return unquote(uri)
