"""The code blocks of the pages that people read, and who runs them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")))
CODE = ("python", "sh", "toml")
NO_CODE = ("mermaid", "text")
NOT_RUN = "# not run by the tests: "
"""How the first line of a block begins that no test can run; the reason follows."""
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SESSION, PAGE = "tests/spark/test_readme.py", "tests/integration/operating/test_documents.py"

RUN_BY: Mapping[str, Mapping[str, str]] = {
    "README.md": {
        "SparkSession": SESSION,
        "import attach": SESSION,
        "token = txn.token()": SESSION,
        "txn.upsert(": SESSION,
        "txn.merge(": SESSION,
        "snapshot(at=": SESSION,
        "to_pandas(": SESSION,
        "(txn_cluster)": SESSION,
        "txnctl status": SESSION,
        "from txnclient import aio": "tests/integration/test_aio.py",
        "txn.postgres(": "tests/postgres/test_postgres.py",
    },
    "docs/history.md": {"client.run(": "tests/integration/history/test_compensating.py"},
    "docs/operations.md": {
        'address = "h1:7070"': "tests/test_docs.py",
        "grpc_address": "tests/test_docs.py",
        'http_address = "0.0.0.0:7272"': "tests/test_docs.py",
        "log_format =": "tests/test_docs.py",
        "trace_endpoint =": "tests/test_docs.py",
        "table_roots": "tests/test_docs.py",
        "[database_roots]": "tests/test_docs.py",
        "secret_key_file": "tests/test_docs.py",
        "txnctl group add": "tests/integration/test_placement.py",
        "txnctl group split": "tests/integration/operating/test_migration.py",
        "txnctl shard split": "tests/integration/operating/test_split_shard.py",
    },
    "docs/participants.md": {"class DocumentsPart": PAGE, "import DocumentsPart": PAGE},
    "docs/protocol.md": {
        "class Priority": "tests/integration/locks/test_strategies.py",
        "[conflict_strategies]": "tests/test_docs.py",
    },
    "docs/security.md": {
        "txnctl grant": "tests/integration/operating/test_roles.py",
        "txnctl limit": "tests/integration/operating/test_limits.py",
        "txnctl audit": "tests/integration/operating/test_trail.py",
        "txnctl cert ca": "tests/unit/deploy/test_certificates.py",
        "txnctl cert revoke user/alice": "tests/integration/operating/test_secure.py",
        "txn.token(tables": "tests/integration/operating/test_secure.py",
        "[tls]": "tests/test_docs.py",
        "[jwt]": "tests/test_docs.py",
        "txnctl cert secret": "tests/unit/security/test_secrets.py",
    },
    "docs/sql.md": {
        "SparkSession": SESSION,
        "txn.spark(spark)": SESSION,
        "BEGIN TRANSACTION": SESSION,
        "txn.system.timeline": SESSION,
        "client.sql_session()": "tests/integration/sql/test_sql.py",
    },
    "docs/streaming.md": {
        "txn.mark(": "tests/integration/test_marks.py",
        "client.stream(": "tests/spark/test_streams.py",
        'spark.read.format("txn")': "tests/spark/test_data_source.py",
    },
    "docs/testing.md": {"best_network(": PAGE},
}
"""Page → a text that only one of its blocks has → the test that runs that block as it is pasted."""


@dataclass(frozen=True, slots=True)
class Block:
    page: str
    language: str
    text: str

    @property
    def reason(self) -> str | None:
        """Why no test runs it; None: one does."""
        first = self.text.partition("\n")[0]
        return first.removeprefix(NOT_RUN) if first.startswith(NOT_RUN) else None


def blocks(page: str) -> Iterator[Block]:
    return (Block(page, language, text) for language, text in _FENCE.findall((ROOT / page).read_text()))


def block(page: str, having: str) -> str:
    """The text of the one block with this in it."""
    (found,) = (each.text for each in blocks(page) if having in each.text)
    return found
