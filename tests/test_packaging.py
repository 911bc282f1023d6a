"""The wheel: what is in it, and that its base installation is the client and nothing more."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parent.parent
PACKAGES = ("txnstatus", "txnparticipant", "txnmanager", "txnclient", "pyspark_txn", "txndeploy")
NOT_IN_BASE = ("grpc", "msgspec", "pysyncobj", "pyspark", "pyarrow", "pydantic", "typer", "tomli_w", "psycopg")


def run(command: Iterable[str | Path], *, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs it as a user would: without this process's Python settings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    words = [str(word) for word in command]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done


@dataclass(frozen=True)
class Installed:
    """A fresh virtual environment with the wheel and its base dependencies."""

    bin: Path

    def python(self, *arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        return run([self.bin / "python", *arguments], check=check)

    def pip_install(self, *what: str | Path) -> None:
        self.python("-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", ROOT / "constraints.txt", *what)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    isolation = ["--no-isolation"] if find_spec("hatchling") else []
    run([sys.executable, "-m", "build", "--wheel", *isolation, "--outdir", out, ROOT])
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    directory = tmp_path_factory.mktemp("venv")
    run([sys.executable, "-m", "venv", directory])
    environment = Installed(directory / "bin")
    environment.pip_install(wheel)
    return environment


# ---- what is in it


def test_wheel_has_all_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    top = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert top == set(PACKAGES)
    missing = {f"{package}/{file}" for package in PACKAGES for file in ("__init__.py", "py.typed")} - names
    assert not missing
    assert not [name for name in names if "test" in name.split("/")[-1] and name != "txndeploy/local/pytest_plugin.py"]


def test_wheel_has_every_source_file(wheel: Path) -> None:
    """Protos and type stubs too: other languages and type checkers need them."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    folders = ("txnstatus", "participant", "manager", "client", "client", "deploy")
    source = {
        file.relative_to(ROOT / folder).as_posix()
        for folder, package in zip(folders, PACKAGES, strict=True)
        for file in (ROOT / folder / package).rglob("*")
        if file.suffix in (".py", ".pyi", ".proto", ".jar", ".html", ".css", ".js", ".svg")
    }
    assert {"txnstatus/proto/common.proto", "txnstatus/proto/common_pb2.pyi"} <= source
    assert "txnclient/sparksql/txn-spark.jar" in source
    assert source <= names, f"not in the wheel: {sorted(source - names)}"


# ---- the base installation


def test_base_installation_is_complete_and_small(installed: Installed) -> None:
    installed.python("-m", "pip", "check")
    listed = installed.python("-m", "pip", "list", "--format", "freeze").stdout.lower()
    present = {line.split("==")[0] for line in listed.splitlines()}
    assert {"txnstatus", "protobuf"} <= present
    assert not present & set(NOT_IN_BASE)


def test_import_loads_the_client_only(installed: Installed) -> None:
    program = f"import sys, txnclient; print([name for name in {NOT_IN_BASE} if name in sys.modules])"
    assert installed.python("-c", program).stdout.strip() == "[]"
    program = "import sys, txnclient; print(sorted(m for m in sys.modules if m.startswith('txn') and '.' not in m))"
    assert installed.python("-c", program).stdout.strip() == "['txnclient', 'txnstatus']"


def test_import_loads_no_heavy_library_where_they_are_all_there() -> None:
    """In the base environment they cannot be loaded; here they could."""
    if not all(find_spec(name) for name in NOT_IN_BASE):
        pytest.skip("not a full development environment")
    paths = [str(ROOT / folder) for folder in ("txnstatus", "client")]
    program = (
        f"import sys; sys.path[:0] = {paths}; import txnclient; "
        f"print([name for name in {NOT_IN_BASE} if name in sys.modules])"
    )
    assert run([sys.executable, "-c", program]).stdout.strip() == "[]"


def test_a_users_own_modules_do_not_collide(installed: Installed, tmp_path: Path) -> None:
    """A script's directory comes first on sys.path, and on Spark executors so do the files of `--py-files`."""
    for name in ("client", "manager", "participant", "deploy", "tests"):
        (tmp_path / f"{name}.py").write_text(f"WHOSE = 'the user, in {name}'\n")
    script = tmp_path / "job.py"
    script.write_text(
        "import txnclient\n"
        "import client, manager, tests\n"
        "assert txnclient.connect('127.0.0.1:7051').owner\n"
        "print(client.WHOSE, manager.WHOSE, tests.WHOSE, sep='; ')\n"
    )
    answer = installed.python(script).stdout.strip()
    assert answer == "the user, in client; the user, in manager; the user, in tests"


def test_txnctl_without_the_server_extra_says_what_to_install(installed: Installed) -> None:
    done = run([installed.bin / "txnctl", "--help"], check=False)
    said = done.stdout + done.stderr
    assert "txnstatus[server]" in said, said
    assert "Traceback" not in said, said
    assert done.returncode != 0


def test_a_users_pytest_runs_beside_the_base_installation(installed: Installed, tmp_path: Path) -> None:
    """pytest loads our plugin in every run, also where the server's libraries are not."""
    installed.pip_install("pytest")
    (tmp_path / "test_own.py").write_text("import txnclient\n\ndef test_own():\n    assert txnclient.Client\n")
    done = installed.python("-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path)
    assert "1 passed" in done.stdout


def test_what_is_pinned_installs_on_the_oldest_python_that_the_readme_names() -> None:
    """Pins: a dependency of the documentation site needed 3.11.5, where Debian 12 has 3.11.2."""
    oldest = "3.11.0"
    assert "With Python ≥ 3.11 " in (ROOT / "README.md").read_text()
    needs = {each.metadata["Name"]: each.metadata.get("Requires-Python") for each in distributions()}
    too_new = {name: text for name, text in needs.items() if text and not SpecifierSet(text).contains(oldest)}
    assert not too_new
