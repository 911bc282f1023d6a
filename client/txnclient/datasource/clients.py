"""Clients: each process of Spark's has one of each cluster, for as long as it lives."""

from __future__ import annotations

from functools import cache, lru_cache

from txnclient.client.client import Client
from txnclient.connecting import connect


@lru_cache(32)
def joined_to(cluster: str, token: bytes) -> Client:
    """A client for a task, which needs no credentials beside the transaction's token."""
    return connect(cluster, credentials=token)


@cache
def connected(cluster: str, owner: str | None) -> Client:
    """The client of the cluster, for whoever the option or Spark says."""
    return connect(cluster, owner=owner)
