"""Pictures of the console, for the documents: `python -m tests.console.screenshots`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.console.scene import browser, scene
from tests.support import fast_cluster

IMAGES = Path(__file__).parents[2] / "docs" / "images"


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, fast_cluster(Path(directory), nodes=1, http=True) as cluster:
        base = f"http://{cluster.configs['n1'].http_address}/console/#/"
        with scene(cluster) as played, browser() as running:
            for name, place, scheme in (
                ("transactions", "transactions", "light"),
                ("transaction", f"transactions/{played.winner}", "light"),
                ("locks", "locks", "dark"),
            ):
                page = running.new_page(
                    viewport={"width": 1100, "height": 420},
                    color_scheme=scheme,  # type: ignore[arg-type]
                )
                page.goto(f"{base}{place}")
                page.locator("main h1").wait_for()
                page.screenshot(path=IMAGES / f"console-{name}.png", full_page=True)
                page.close()


if __name__ == "__main__":
    main()
