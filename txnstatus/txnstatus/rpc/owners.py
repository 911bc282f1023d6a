"""Who calls, where a certificate says it: what a request says of its owner gives way; some calls are not for all."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from txnstatus.errors import NotAuthorized
from txnstatus.security.principals import Principal

OWNER = "owner"
"""Name of the fields of requests that say whose a transaction, or what is made in it, is."""


def check_call(caller: Principal | None, method: str, group: str, *, only_processes: bool) -> None:
    """Whether somebody may ask for that, of the replica of `group`; empty: of the process, which asks replicas itself.

    `caller` None: it is not known. `only_processes`: nobody else is answered. Raises NotAuthorized.
    """
    if caller is not None and (group or only_processes) and not caller.is_process:
        raise NotAuthorized(f"{caller} may not call {method} of {group or 'a host'}: only processes of the cluster may")


def claim(request: Message, caller: Principal | None) -> None:
    """Has the request, and what it carries, be the caller's, whatever it said; None: it is as it says."""
    if caller is not None:
        _claim(request, caller.owner, _places(request.DESCRIPTOR))


def _claim(message: Any, owner: str, places: _Places) -> None:
    has_owner, below = places
    if has_owner:
        setattr(message, OWNER, owner)
    for name, is_repeated, inner in below:
        if is_repeated:
            for each in getattr(message, name):
                _claim(each, owner, inner)
        elif message.HasField(name):
            _claim(getattr(message, name), owner, inner)


_Places = tuple[bool, Sequence[tuple[str, bool, Any]]]
"""Whether a message has an owner; and its fields in whose messages there is one, with these."""


@functools.cache
def _places(kind: Descriptor) -> _Places:
    """No request holds a message of its own kind."""
    below = [
        (field.name, field.is_repeated, places)
        for field in kind.fields
        if field.type == FieldDescriptor.TYPE_MESSAGE and any(places := _places(field.message_type))
    ]
    return OWNER in kind.fields_by_name, tuple(below)
