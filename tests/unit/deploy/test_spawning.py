"""Processes that are forked are as processes that are started fresh."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from txndeploy.local.cluster import wait_until
from txndeploy.local.spawning import Forked, ForkServer, Spawn, fresh

PROGRAM = """
import os, pathlib, signal, sys
from txndeploy.node import tethered

def main():
    tied = tethered.tie()
    print(tied, sys.argv[1:], os.environ.get("WORD"), os.getcwd(), os.getsid(0) == os.getpid(), flush=True)
    print("to the error output", file=sys.stderr, flush=True)
    if sys.argv[1] == "end":
        sys.exit(int(sys.argv[2]))
    if sys.argv[1] == "raise":
        raise ValueError("the program's own")
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    while True:
        os.read(reading, 1)  # signal.pause misses a signal that came a moment before it

if __name__ == "__main__":
    main()
"""
WAIT = 60.0
"""Seconds; fresh processes import a node's modules, which takes a while where others use the cores."""


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """As at a terminal: what a shell runs in the background ignores interrupts, and so does what that starts fresh."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def forks() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.close()


@pytest.fixture(params=["fresh", "forked"])
def spawn(request: pytest.FixtureRequest, forks: ForkServer) -> Spawn:
    return fresh if request.param == "fresh" else forks.spawn


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "a_program.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    return "a_program"


def command(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, **more}


def test_arguments_environment_output_and_exit_code(spawn: Spawn, module: str, tmp_path: Path) -> None:
    process = spawn(command(module, "end", "7"), tmp_path / "log", environment(WORD="a word"))
    assert process.wait(WAIT) == 7
    assert process.poll() == 7
    process.kill()  # of one that has ended nothing comes
    expected = f"True ['end', '7'] a word {tmp_path} True\nto the error output\n"
    assert (tmp_path / "log").read_text() == expected
    again = spawn(command(module, "end", "0"), tmp_path / "log", environment(WORD="another"))
    assert again.wait(WAIT) == 0
    assert (tmp_path / "log").read_text().startswith(expected + "True ['end', '0'] another"), "output is appended"


def test_a_module_on_a_path_of_its_own(spawn: Spawn, module: str, tmp_path: Path) -> None:
    (tmp_path / "apart").mkdir()
    (tmp_path / "apart" / "another_program.py").write_text(PROGRAM)
    process = spawn(
        command("another_program", "end", "3"), tmp_path / "log", environment(PYTHONPATH=str(tmp_path / "apart"))
    )
    assert process.wait(WAIT) == 3


def test_what_fails_says_so(spawn: Spawn, module: str, tmp_path: Path) -> None:
    process = spawn(command(module, "raise"), tmp_path / "log", environment())
    assert process.wait(WAIT) == 1
    assert (tmp_path / "log").read_text().endswith("ValueError: the program's own\n")


def test_signals(spawn: Spawn, module: str, tmp_path: Path) -> None:
    process = spawn(command(module, "stay"), tmp_path / "log", environment())
    wait_until(lambda: "error output" in (tmp_path / "log").read_text(), "the program runs", WAIT)
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: _state(process.pid) == "T", "the process stops", WAIT)
    process.send_signal(signal.SIGCONT)
    process.terminate()
    assert process.wait(WAIT) == -signal.SIGTERM
    killed = spawn(command(module, "stay"), tmp_path / "log", environment())
    killed.kill()
    assert killed.wait(WAIT) == -signal.SIGKILL


def test_the_interrupt_of_a_terminal_ends_it_as_it_ends_any(spawn: Spawn, module: str, tmp_path: Path) -> None:
    process = spawn(command(module, "stay"), tmp_path / "log", environment())
    wait_until(lambda: "error output" in (tmp_path / "log").read_text(), "the program runs", WAIT)
    process.send_signal(signal.SIGINT)
    assert process.wait(WAIT) == -signal.SIGINT
    assert (tmp_path / "log").read_text().endswith("KeyboardInterrupt\n")


def test_what_no_fork_can_be_is_started_fresh(forks: ForkServer, module: str, tmp_path: Path) -> None:
    preloaded = forks.spawn(command(module, "end", "0"), tmp_path / "log", environment(LD_PRELOAD=""))
    other = forks.spawn(["/bin/sh", "-c", "exit 4"], tmp_path / "log", environment())
    assert not isinstance(preloaded, Forked)
    assert not isinstance(other, Forked)
    assert (preloaded.wait(WAIT), other.wait(WAIT)) == (0, 4)


def test_forks_end_with_their_server_and_a_new_one_takes_its_place(module: str, tmp_path: Path) -> None:
    server = ForkServer()
    process = server.spawn(command(module, "stay"), tmp_path / "log", environment())
    wait_until(lambda: "True" in (tmp_path / "log").read_text(), "the program runs", WAIT)
    os.kill(_parent(process.pid), signal.SIGKILL)
    assert process.wait(WAIT) == -signal.SIGKILL
    assert server.spawn(command(module, "end", "5"), tmp_path / "log", environment()).wait(WAIT) == 5
    server.close()


def test_forks_end_with_the_process_that_wanted_them(module: str, tmp_path: Path) -> None:
    program = f"""
import os, pathlib, signal, sys
from txndeploy.local.spawning import ForkServer
server = ForkServer()
process = server.spawn({command(module, "stay")!r}, pathlib.Path("log"), dict(os.environ))
print(process.pid, flush=True)
os.fork() or signal.pause()  # a child of its own has what it had open, and stays
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        try:
            wait_until(lambda: "True" in (tmp_path / "log").read_text(), "the program runs", WAIT)
            starter.kill()
            wait_until(lambda: _state(pid) in ("", "Z"), "the fork ends", WAIT)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(starter.pid, signal.SIGKILL)


def _state(pid: int) -> str:
    """The state that the kernel tells of a process; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return ""


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])
