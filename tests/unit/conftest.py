"""Unit tests are the same in every run: hypothesis draws from a fixed seed, and keeps no database.

A test that is `async` runs on a loop of its own; marked `virtual_time`, on one where waiting takes no time.
"""

from __future__ import annotations

import asyncio
import inspect

import pytest
from hypothesis import settings

from tests.unit.harness.ranges import VirtualLoop

settings.register_profile("unit", derandomize=True, database=None, deadline=None)
settings.load_profile("unit")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    virtual = pyfuncitem.get_closest_marker("virtual_time") is not None
    with asyncio.Runner(loop_factory=VirtualLoop if virtual else None) as runner:
        runner.run(pyfuncitem.obj(**arguments))
    return True
