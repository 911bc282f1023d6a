"""The conflict strategies of a node: those that come with the service, and those its configuration names."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from txndeploy.errors import ConfigError
from txnparticipant.locks.strategies import BUILT_IN, Strategy


def load(named: Mapping[str, str]) -> Mapping[str, Strategy]:
    """By name. `named`: "module:attribute" of each. Raises ConfigError for what is not there, or is no strategy."""
    return {**BUILT_IN, **{name: _found(name, target) for name, target in named.items()}}


def _found(name: str, target: str) -> Strategy:
    where = f"conflict_strategies.{name} = {target!r}"
    module, _, attribute = target.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        raise ConfigError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
    if isinstance(found, type) or not callable(getattr(found, "settle", None)):
        raise ConfigError(
            f"{where} is no strategy: it has no `settle`, or is a class and not an instance "
            "(see txnparticipant/locks/strategies.py)"
        )
    strategy: Strategy = found
    return strategy
