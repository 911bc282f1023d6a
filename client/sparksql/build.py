"""Builds the catalog's jar from the Java beside this file, the same bytes each time: `make jar`.

It is checked in, since who installs the wheel, or runs the tests, has a Java runtime and no compiler. Its manifest
names the sources that it was built from; `--check` fails where these are not the ones that there are.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = HERE / "src"
JAR = HERE.parent / "txnclient" / "sparksql" / "txn-spark.jar"
RELEASE = "17"
"""The Java that Spark 4 needs at least."""
LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The time of each entry: the earliest that there is in a zip file."""


def sources() -> list[Path]:
    return sorted(SOURCES.rglob("*.java"))


def version() -> str:
    """The sources' hash: a line of a manifest has room for half of it."""
    found = hashlib.sha256()
    for source in sources():
        content = source.read_bytes()
        found.update(f"{source.relative_to(SOURCES).as_posix()} {len(content)}\n".encode() + content)
    return found.hexdigest()[:32]


def manifest() -> str:
    return f"Manifest-Version: 1.0\r\nImplementation-Title: txnstatus\r\nImplementation-Version: {version()}\r\n\r\n"


def build(jar: Path) -> None:
    """Raises RuntimeError where there is no compiler, or it refuses the sources."""
    compiler = shutil.which("javac")
    if compiler is None:
        raise RuntimeError("no javac is on the PATH: install a JDK, 17 or later (Debian: openjdk-17-jdk-headless)")
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars" / "*"
    with tempfile.TemporaryDirectory() as scratch:
        command = [compiler, "--release", RELEASE, "-g:source,lines", "-proc:none", "-cp", str(jars), "-d", scratch]
        done = subprocess.run([*command, *map(str, sources())], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"javac refuses the sources:\n{done.stderr}")
        with zipfile.ZipFile(jar, "w") as archive:
            _add(archive, "META-INF/MANIFEST.MF", manifest().encode())
            for compiled in sorted(Path(scratch).rglob("*.class")):
                _add(archive, compiled.relative_to(scratch).as_posix(), compiled.read_bytes())


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, LONG_AGO), content, zipfile.ZIP_DEFLATED)


def is_current(jar: Path) -> bool:
    with zipfile.ZipFile(jar) as archive:
        return archive.read("META-INF/MANIFEST.MF").decode() == manifest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="build nothing; is the jar that of the sources?")
    parser.add_argument("--jar", type=Path, default=JAR, help="the jar, by default the one that is checked in")
    given = parser.parse_args()
    if given.check:
        if is_current(given.jar):
            return 0
        print(f"{given.jar} was not built from the sources that there are: make jar", file=sys.stderr)
        return 1
    build(given.jar)
    return 0


if __name__ == "__main__":
    sys.exit(main())
