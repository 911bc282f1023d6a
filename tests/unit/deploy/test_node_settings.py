"""What `docs/operations.md` says of a node's configuration, beside what that takes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from pydantic.fields import FieldInfo

from txndeploy.node import directory
from txndeploy.node.config import NodeConfig, RaftSection, TxnSection
from txnstatus.catalog.options import Options

PAGE = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
SECTION = PAGE.split("## A node's configuration\n")[1].split("\n## ")[0]
ROWS = {
    name: (default, means) for name, default, means in re.findall(r"^\| `(\S+)` \| (.+?) \| (.+) \|$", SECTION, re.M)
}


def fields() -> dict[str, FieldInfo]:
    """All settings but the options of the cluster, which `txnctl config list` explains."""
    options = {name for name, _, _ in Options().items()}
    single = {name: each for name, each in NodeConfig.model_fields.items() if name not in ("raft", "txn")}
    raft = {f"raft.{name}": each for name, each in RaftSection.model_fields.items()}
    return (
        single | raft | {f"txn.{name}": each for name, each in TxnSection.model_fields.items() if name not in options}
    )


def said(field: FieldInfo) -> object:
    """The default as the page has it; None: there is none, or it has to be said."""
    return None if field.is_required() else field.default


def read(default: str) -> object:
    if default in ("has to be said", "none"):
        return None
    value = tomllib.loads(f"it = {default.strip('`')}")["it"]
    return tuple(value) if isinstance(value, list) else value


def test_the_page_names_each_setting_and_no_other() -> None:
    assert {name: read(default) for name, (default, _) in ROWS.items()} == {
        name: said(field) for name, field in fields().items()
    }
    assert {name for name, (default, _) in ROWS.items() if default == "has to be said"} == {
        name for name, field in fields().items() if field.is_required()
    }


def test_the_page_says_what_is_fixed(tmp_path: Path) -> None:
    config = NodeConfig.model_validate(
        {
            "cluster_name": "air",
            "node_id": "n1",
            "data_dir": tmp_path,
            "warehouse": "file:///lake",
            "nodes": {"n1": {"address": "h1:7070"}},
        }
    )
    settings = {"roles": "nodes", "range_span": "txn.range_span"}
    made = {settings.get(name, name) for name in directory.made_for(config)}
    assert {name for name, (_, means) in ROWS.items() if re.search(r"\bfixed\b", means)} == made
