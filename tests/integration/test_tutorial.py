"""The documents' notebook, run from top to bottom as its readers do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.cluster
NOTEBOOK = Path(__file__).parents[2] / "docs" / "tutorial.ipynb"
CELL_SECONDS = 120


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "what it showed somebody once is not kept"
    resources = {"metadata": {"path": str(tmp_path_factory.mktemp("notebook"))}}
    NotebookClient(notebook, timeout=CELL_SECONDS, kernel_name="python3", resources=resources).execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_each_cell_shows_what_its_text_says(cells: list[Any]) -> None:
    shown = iter([_shown(cell) for cell in cells])
    assert "<caption>Client</caption>" in next(shown)
    assert "<caption>shop.stock</caption>" in next(shown)
    assert "<td>shop.lines, shop.orders, shop.stock</td>" in next(shown)
    after_a_failure = next(shown)
    assert "not so many pens" in after_a_failure
    assert "eve" not in after_a_failure
    assert "193" in next(shown)
    handle = next(shown)
    assert "<caption>Transaction" in handle
    assert "<td>open</td>" in handle
    conflict = next(shown)
    assert "shop.stock(ink) was changed by transaction 3, which was first" in conflict
    assert "what to do: " in conflict.splitlines()[-1]
    assert "<caption>Savepoints: 1</caption>" in next(shown)
    assert "<td>2</td>" in next(shown)
    past = next(shown)
    assert past.startswith("4 2\n")
    assert past.count("<td>delete</td>") == 2
    assert "<caption>Committed</caption>" in next(shown)
    assert "<td>7</td>" in next(shown), "the pens are back"
    of_a_table = next(shown)
    assert "<caption>Timeline: " in of_a_table
    assert "<td>bad load</td>" in of_a_table
    in_sql = next(shown)
    assert in_sql.count("ABORTED") == 2
    assert "bad load" in in_sql
    compacted = next(shown)
    assert "<progress" in compacted
    assert "shop.lines is compacted" in compacted
    assert "<caption>Compactions: 1</caption>" in compacted
    altered = next(shown)
    assert altered.startswith("['id', 'customer', 'day']\n")
    assert "<td>note</td>" in altered
    assert list(shown) == [""], "the end shows nothing"


def _shown(cell: Any) -> str:
    """What is below the cell: text, and HTML where there is some."""
    found = (each.get("data", {}).get("text/html") or each.get("text", "") for each in cell.outputs)
    return "".join(found)
