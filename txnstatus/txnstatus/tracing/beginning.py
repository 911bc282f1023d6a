"""Beginning: whether a process traces, as its environment or its configuration says."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping

from txnstatus.errors import InvalidArgument
from txnstatus.tracing import spans

log = logging.getLogger(__name__)

WANTED_BY = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
MISSING = "pip install 'txnstatus[otel]'"
_beginning = threading.Lock()


def is_wanted(environ: Mapping[str, str]) -> bool:
    """Whether OpenTelemetry's own variables ask for traces."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if exporter := environ.get("OTEL_TRACES_EXPORTER", "").strip():
        return exporter != "none"
    return any(environ.get(name) for name in WANTED_BY)


def begin(service: str, instance: str = "", endpoint: str = "") -> None:
    """Has this process trace, if its environment says so, or where an `endpoint` of a collector is given.

    `service`: its name, unless the environment has one; `instance`: which one of these it is. Raises InvalidArgument
    where the endpoint is given and OpenTelemetry is not installed, or its variables do not hold. What only the
    environment asks for, and is not to be had, is logged.
    """
    if spans.tracer is not None or not (endpoint or is_wanted(os.environ)):
        return
    with _beginning:
        if _is_on():
            return
        try:
            from txnstatus.tracing.otel import by_environment
        except ImportError as error:
            if endpoint:
                raise InvalidArgument(f"traces need OpenTelemetry: {error}", hint=MISSING) from None
            log.warning("OTEL_* variables ask for traces, and there are none: %s; %s", error, MISSING)
            return
        spans.use(by_environment(service, instance, endpoint))


def _is_on() -> bool:
    return spans.tracer is not None
