"""The shell: a line after the other, until a statement is whole, with a history and completion of names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from txnclient import Client, TxnError
from txnclient.ducksql.scripts import is_whole
from txnclient.ducksql.sessions import DuckSession
from txndeploy.speaking import results
from txndeploy.terminal.output import console, lines
from txnstatus.errors import IllegalState

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

_QUERIES = "SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT JOIN LEFT ON AS WITH UNION ALL DISTINCT VERSION TIMESTAMP OF"
_VALUES = "AND OR NOT IN IS NULL LIKE BETWEEN CASE WHEN THEN ELSE END"
_CHANGES = "INSERT INTO OVERWRITE VALUES UPDATE SET DELETE MERGE USING MATCHED TRUNCATE BEGIN COMMIT ROLLBACK LOCK"
_TABLES = "CREATE DROP ALTER TABLE DESCRIBE SHOW TABLES DATABASES TRANSACTIONS LOCKS COMPACTIONS USE"
KEYWORDS = " ".join((_QUERIES, _VALUES, _CHANGES, _TABLES)).split()
_BREAKS = "(,=<>+-*/;"


def converse(client: Client, session: DuckSession, *, as_json: bool) -> None:
    """Reads and runs statements until `\\q` or the end of the input; an error is told, and the shell goes on.

    Raises IllegalState without prompt_toolkit.
    """
    names = Names(client)
    prompts = _prompts(names)
    console().print(f"txnctl sql: {results.HELP}")
    while True:
        try:
            text = _read(prompts, session)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text.strip() in ("\\q", "exit", "quit"):
            return
        try:
            results.run(client, session, text, as_json=as_json)
        except TxnError as error:
            said = Text.assemble(("error: ", "red"), lines(str(error)))
            console(stderr=True).print(said, soft_wrap=True)
        except KeyboardInterrupt:
            console(stderr=True).print("interrupted")
        names.forget()


def prompt(session: DuckSession) -> str:
    """What is asked with: the database, and `*` within a transaction, `!` where it can only be rolled back."""
    mark = "" if session.txn is None else "!" if session.txn.handle.failure else "*"
    return f"{session.database or 'txn'}{mark}> "


def _read(prompts: PromptSession[str], session: DuckSession) -> str:
    """One or more statements, the last of them whole, or a command of the shell."""
    asked = prompt(session)
    text = prompts.prompt(asked)
    while text.strip() and not (text.lstrip().startswith("\\") or text.strip() in ("exit", "quit") or is_whole(text)):
        text += "\n" + prompts.prompt(" " * (len(asked) - 3) + "-> ")
    return text


def _prompts(names: Names) -> PromptSession[str]:
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import Completer, Completion, ThreadedCompleter
        from prompt_toolkit.history import FileHistory
    except ImportError as error:
        raise IllegalState(
            f"the shell needs prompt_toolkit: {error}", hint="pip install 'txnstatus[shell]'; or -c 'SELECT ...'"
        ) from None

    class Completing(Completer):
        def get_completions(self, document: object, _: object) -> Iterator[Completion]:
            before: str = document.current_line_before_cursor  # type: ignore[attr-defined]
            start = unfinished(before)
            for word in names.beginning(start):
                yield Completion(word, -len(start))

    return PromptSession(history=FileHistory(str(_history())), completer=ThreadedCompleter(Completing()))


def unfinished(text: str) -> str:
    """The word that the text ends with, which may go on."""
    for character in _BREAKS:
        text = text.replace(character, " ")
    return "" if not text or text[-1].isspace() else text.split()[-1]


def _history() -> Path:
    """A file of the user's own, which nobody else can read."""
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    file = base / "txnctl" / "sql_history"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(0o600)
    return file


class Names:
    """Names of tables and columns, and keywords. Of any thread."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._tables: Mapping[str, tuple[str, ...]] | None = None

    def forget(self) -> None:
        """Asks again when they are wanted: a statement may have made a table."""
        self._tables = None

    def beginning(self, start: str) -> list[str]:
        """Words that begin so, whatever the case; of tables and columns none where the cluster does not answer."""
        if not start:
            return []
        known = dict.fromkeys([*self._named(), *KEYWORDS])
        return [word for word in known if word.casefold().startswith(start.casefold())]

    def _named(self) -> Iterable[str]:
        tables = self._tables
        if tables is None:
            try:
                tables = {each.name: tuple(one.name for one in each.schema.columns) for each in self._client.tables()}
            except TxnError:
                return ()
            self._tables = tables
        columns = sorted({column for each in tables.values() for column in each})
        return (*tables, *(name.partition(".")[2] for name in tables), *columns)
