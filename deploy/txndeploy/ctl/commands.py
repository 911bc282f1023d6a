"""The commands of `txnctl`: what one needs is imported when it is called, so that `txnctl sql` imports no node."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import typer
from typer.core import TyperGroup

from txndeploy.ctl.lasting import lasting

MODULES: Mapping[str, str] = {
    "txn": "ctl.transactions",
    "table": "ctl.tables",
    "savepoint": "ctl.history",
    "marks": "ctl.marking",
    "grant": "ctl.granting",
    "revoke": "ctl.granting",
    "grants": "ctl.granting",
    "audit": "ctl.auditing",
    "group": "ctl.placing",
    "shard": "ctl.placing",
    "database": "ctl.placing",
    "config": "ctl.options",
    "limit": "ctl.limiting",
    "node": "ctl.nodes",
    "rebalance": "ctl.balancing",
    "backup": "ctl.backing_up",
    "relocate": "ctl.backing_up",
    "upgrade": "ctl.upgrading",
    "participant": "ctl.participants",
    "doctor": "doctor.command",
    "restore": "ctl.history",
    "timeline": "ctl.history",
    "compactor": "ctl.compacting",
    "compactions": "ctl.compacting",
    "spark": "ctl.driving",
    "sql": "ctl.speaking",
    "cert": "ctl.certifying",
    "log-level": "ctl.leveling",
    "top": "ctl.looking",
    "health": "ctl.looking",
    "debug": "ctl.looking",
    "token": "ctl.tokens",
    "up": "ctl.running",
    "demo": "ctl.running",
    "status": "ctl.options",
    "explain": "ctl.transactions",
    "locks": "ctl.transactions",
}
"""Command, or group of some → the module of ours whose `commands` have it."""


class _Commands(Mapping[str, Any]):
    """Name → command."""

    def __getitem__(self, name: str) -> Any:
        with lasting():
            module = importlib.import_module(f"txndeploy.{MODULES[name]}")
        return typer.main.get_group(module.commands).commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


class _Root(TyperGroup):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Commands()  # type: ignore[assignment]  # nobody adds to them


app = typer.Typer(
    cls=_Root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def txnctl() -> None:
    """Runs and inspects a txnstatus cluster."""
