"""`txnctl sql`: statements from the command line, from standard input, and from somebody who types."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from typer.testing import CliRunner

from txnclient import Client
from txnclient.ducksql.scripts import is_whole
from txnclient.ducksql.sessions import DuckSession
from txndeploy.ctl.commands import app
from txndeploy.local.cluster import LocalCluster
from txndeploy.speaking import interactive
from txnstatus.errors import InvalidArgument

Shell = Callable[..., Result]


@pytest.fixture
def shell(cluster: LocalCluster) -> Shell:
    def run(*arguments: str, code: int = 0, text: str | None = None) -> Result:
        result = CliRunner().invoke(app, ["sql", "--cluster", cluster.addresses, *arguments], input=text)
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def stock(client: Client, new_table: Callable[..., str]) -> str:
    name = new_table("item string, pieces bigint")
    client.sql(f"INSERT INTO {name} VALUES ('pen', 1), ('[red]ink[/]', NULL)")
    return name


def test_statements_of_the_command_line_are_one_session(shell: Shell, stock: str) -> None:
    shown = shell("-c", f"BEGIN; DELETE FROM {stock}", "-c", f"SELECT count(*) AS n FROM {stock}; ROLLBACK").output
    assert "1 row" in shown
    assert "[red]ink[/]" in shell("-c", f"SELECT * FROM {stock}").output
    assert "NULL" in shell("-c", f"SELECT * FROM {stock}").output


def test_a_document_for_each_statement_of_standard_input(shell: Shell, client: Client, stock: str) -> None:
    script = f"SELECT item, pieces, pieces FROM {stock} ORDER BY pieces DESC;\nINSERT INTO {stock} SELECT 'x', 2;BEGIN"
    documents = [json.loads(line) for line in shell("--json", text=script).output.splitlines()]
    assert documents[0] == {
        "columns": ["item", "pieces", "pieces"],
        "rows": [["pen", 1, 1], ["[red]ink[/]", None, None]],
    }
    assert documents[1]["rows"] == [[1, 0, 0]]
    assert documents[2]["columns"] == ["txn_id"]
    assert client.get(documents[2]["rows"][0][0]).state.name.startswith("ABORT")


def test_tables_are_listed_and_shown(shell: Shell, stock: str) -> None:
    assert stock in shell("-c", "\\d").output
    assert "pieces" in shell("-c", f"\\d {stock}").output
    assert stock in {each["name"] for each in json.loads(shell("--json", "-c", "\\d").output)["tables"]}


def test_the_first_error_is_the_last_statement(shell: Shell, client: Client, stock: str) -> None:
    told = shell("-c", f"SELECT nothing FROM {stock}; DELETE FROM {stock}", code=1).output
    assert "nothing" in told
    assert "is no command of this shell" in shell("-c", "\\x", code=1).output
    assert client.sql(f"SELECT count(*) FROM {stock}")[0].to_pylist() == [2]


@pytest.fixture
def typed(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Somebody who types."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def type_in(text: str) -> None:
        with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
            keys.send_text(text)
            with client.sql_session() as session:
                assert isinstance(session, DuckSession)
                interactive.converse(client, session, as_json=False)

    return type_in


def test_the_shell_goes_on_after_an_error_and_remembers(
    typed: Callable[[str], None], client: Client, stock: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(f"SELEC 1;\nINSERT INTO {stock}\nVALUES (';', 3);\nBEGIN; DELETE FROM {stock};\n\\d\n\\q\n")
    told = capsys.readouterr()
    assert "does not read as Spark SQL" in told.err
    assert stock in told.out
    assert client.sql(f"SELECT count(*) FROM {stock}")[0].to_pylist() == [3]  # what was open is rolled back
    history = tmp_path / "txnctl" / "sql_history"
    assert "SELEC 1;" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


def test_names_and_keywords_are_completed(client: Client, stock: str) -> None:
    names = interactive.Names(client)
    assert stock in names.beginning(stock[:4])
    assert names.beginning("pie") == ["pieces"]
    assert "SELECT" in names.beginning("sel")
    assert names.beginning("") == []
    assert interactive.unfinished("SELECT max(pie") == "pie"
    assert interactive.unfinished("SELECT ") == ""


def test_the_prompt_tells_of_the_transaction(client: Client, stock: str) -> None:
    with client.sql_session() as session:
        assert isinstance(session, DuckSession)
        assert interactive.prompt(session) == "txn> "
        session.sql("USE t; BEGIN")
        assert interactive.prompt(session) == "t*> "
        with pytest.raises(InvalidArgument):
            session.sql(f"INSERT INTO {stock} SELECT item, CAST(item AS BIGINT) FROM {stock}")
        assert interactive.prompt(session) == "t!> "


@pytest.mark.parametrize(
    ("text", "whole"),
    [("SELECT 1;", True), ("SELECT 1", False), ("SELECT ';", False), ("SELECT 1; SELECT 2", False), ("", True),
     ("BEGIN ATOMIC SELECT 1;", False), ("BEGIN ATOMIC SELECT 1; END;", True), ("SELECT 1 -- ;", False)],
)  # fmt: skip
def test_a_statement_is_whole_at_its_semicolon(text: str, whole: bool) -> None:
    assert is_whole(text) is whole
