"""The interpreter that runs this process: most of what a transaction costs is its work, and builds of it differ."""

from __future__ import annotations

import platform
import sys
import sysconfig

DISTRIBUTIONS = ("/usr",)
"""Where distributions put theirs: they build with profile-guided optimization, and need not say so."""
PROFILED = "--enable-optimizations"


def is_profiled(arguments: str, prefix: str) -> bool:
    """Whether a build is with profile-guided optimization, by what it was configured with and where it is."""
    return PROFILED in arguments or prefix in DISTRIBUTIONS


def describe() -> str:
    """Such as `CPython 3.11.2, with profile-guided optimization, in /usr`."""
    how = "with" if runs_profiled() else "WITHOUT"
    name = platform.python_implementation()
    return f"{name} {platform.python_version()}, {how} profile-guided optimization, in {sys.base_prefix}"


def runs_profiled() -> bool:
    """Whether this process's build is."""
    return is_profiled(str(sysconfig.get_config_var("CONFIG_ARGS") or ""), sys.base_prefix)
