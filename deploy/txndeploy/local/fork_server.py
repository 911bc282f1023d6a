"""The process that `txndeploy.local.spawning.ForkServer` forks from: it has imported what is to run, and nothing runs.

python -m txndeploy.local.fork_server DESCRIPTOR PARENT

It reads requests from the socket DESCRIPTOR, a JSON object a line, and answers each with a number: the process forked,
or the exit code of one that ended. It has one thread, so that nothing is half done in a fork. It ends with PARENT.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
import warnings
from typing import Any

import txnclient.compact.worker  # noqa: F401  what is imported here, forks have
import txndeploy.node.process  # noqa: F401
from txndeploy.node import tethered


def serve(connection: socket.socket, parent: int) -> dict[str, Any] | None:
    """Until `parent` ends: None; or in a fork: what that is to run."""
    requests = connection.makefile("rb")
    watched = select.poll()
    watched.register(connection, select.POLLIN)
    watched.register(parent, select.POLLIN)
    while True:
        if any(descriptor == parent for descriptor, _ in watched.poll()):
            return None
        line = requests.readline()
        if not line:
            return None
        request = json.loads(line)
        if "reap" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["reap"], 0)[1])
        elif (answer := os.fork()) == 0:
            requests.close()
            connection.close()
            os.close(parent)
            return dict(request)
        connection.sendall(b"%d\n" % answer)


def become(request: dict[str, Any]) -> None:
    """Has this fork run the request's `python -m MODULE …` as a process of its own would."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for descriptor, number in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(descriptor, number)
    os.close(nothing)
    os.close(output)
    os.environ.clear()
    os.environ.update(request["environment"], **{tethered.VARIABLE: str(os.getppid())})
    os.chdir(request["directory"])
    _, _, module, *arguments = request["command"]
    more = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[0] = request["directory"]
    sys.path[1:1] = [path for path in more if path and path not in sys.path]
    sys.argv = [module, *arguments]
    warnings.filterwarnings("ignore", "'.*' found in sys.modules", RuntimeWarning)  # imported before: that is the point
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.pidfd_open(int(sys.argv[2]))
    if os.getppid() != int(sys.argv[2]):
        return
    gc.collect()
    gc.freeze()  # a collection in a fork would touch, and so copy, every page
    request = serve(socket.socket(fileno=int(sys.argv[1])), parent)
    if request is not None:
        become(request)


if __name__ == "__main__":
    main()
