"""`txnctl`: the entry point. What it needs comes with an extra, so a base install gets a sentence, not a traceback."""

from __future__ import annotations

import sys

_FROM_EXTRA = frozenset(
    {"typer", "rich", "pydantic", "pysyncobj", "pyarrow", "uvloop", "click", "tomli_w", "cryptography", "jwt"}
)


def main() -> None:
    try:
        from txndeploy.ctl.commands import app
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _FROM_EXTRA:
            raise
        sys.exit(f"txnctl needs {missing}, which is not installed: pip install 'txnstatus[server]'")
    app()


if __name__ == "__main__":
    main()
