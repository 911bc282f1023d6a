"""Methods of services, by the names that they have on the wire and in code."""

from __future__ import annotations

import re

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor


def full_name(method: MethodDescriptor) -> str:
    return f"{method.containing_service.full_name}/{method.name}"


def is_method(name: str) -> bool:
    """Whether any service that this process knows has it, by its full name."""
    service, _, name = name.partition("/")
    try:
        descriptor_pool.Default().FindMethodByName(f"{service}.{name}")
    except KeyError:
        return False
    return True


def snake(name: str) -> str:
    """The name of the method that implements an rpc of this name."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
