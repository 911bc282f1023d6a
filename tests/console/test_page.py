"""The console in a browser: each page, without a mouse, in both colours; and what somebody wrote is never markup."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.console.scene import MARKUP, Scene, browser
from tests.support import connect
from txndeploy.local.cluster import LocalCluster

playwright = pytest.importorskip("playwright.sync_api", reason="no playwright")
Browser, ConsoleMessage, Page = playwright.Browser, playwright.ConsoleMessage, playwright.Page
expect = playwright.expect

PAGES = {
    "cluster": "Cluster",
    "transactions": "Live transactions",
    "locks": "Locks",
    "tables": "Tables",
    "conflicts": "Conflicts",
    "slow": "Slow steps",
}
MILLISECONDS = 30_000


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as running:
        yield running


@pytest.fixture
def page(chromium: Browser, cluster: LocalCluster) -> Iterator[Page]:
    """A page whose errors, and whose breaches of its own policy, fail the test; a node that is too busy to answer
    is asked again."""
    context = chromium.new_context(base_url=f"http://{cluster.configs['n1'].http_address}", reduced_motion="reduce")
    context.set_default_timeout(MILLISECONDS)
    opened, wrong, elsewhere = context.new_page(), list[str](), list[str]()
    opened.on("console", lambda told: wrong.append(told.text) if _is_wrong(told) else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("request", lambda asked: elsewhere.append(asked.url) if "127.0.0.1" not in asked.url else None)
    yield opened
    context.close()
    assert not wrong
    assert not elsewhere


def _is_wrong(told: ConsoleMessage) -> bool:
    return told.type == "error" and not told.text.startswith("Failed to load resource")


def at(page: Page, place: str, heading: str) -> None:
    page.goto(f"/console/#/{place}")
    expect(page.get_by_role("heading", level=1)).to_have_text(heading, timeout=MILLISECONDS)


@pytest.mark.usefixtures("played")
@pytest.mark.parametrize(("place", "heading"), PAGES.items())
def test_each_page_is_there_and_says_where_one_is(page: Page, place: str, heading: str) -> None:
    at(page, place, heading)
    assert page.title() == f"{heading} – txnstatus"
    expect(page.locator("nav [aria-current=page]")).to_have_count(1)
    expect(page.get_by_role("alert")).to_have_text("", timeout=MILLISECONDS)
    for table in page.get_by_role("table").all():
        assert table.locator("caption").inner_text()
        assert table.locator("tbody tr").count() == table.locator("tbody th[scope=row]").count() > 0


def test_a_node_is_said_to_lead_what_it_leads(page: Page) -> None:
    at(page, "cluster", "Cluster")
    node = page.get_by_role("table", name="Nodes").get_by_role("row", name="n1")
    expect(node.get_by_role("cell").last).to_have_text("catalog, group-0")


def test_what_somebody_wrote_is_text(page: Page, played: Scene) -> None:
    for place, heading in (("slow", "Slow steps"), (f"transactions/{played.ill}", f"Transaction {played.ill}")):
        at(page, place, heading)
        expect(page.get_by_role("main")).to_contain_text(MARKUP)
        assert page.locator("main img, main script").count() == 0
        assert page.evaluate("window.told") is None


def test_the_story_of_a_transaction_is_read_in_order(page: Page, played: Scene) -> None:
    at(page, "conflicts", "Conflicts")
    page.get_by_role("link", name=str(played.winner), exact=True).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Transaction {played.winner}")
    told = page.locator("ol.story > li").all_inner_texts()
    assert [re.search(r"begins|prepared|decided|published", each)[0] for each in told] == [  # type: ignore[index]
        "begins",
        "prepared",
        "decided",
        "published",
    ]


def test_who_waits_is_below_whom_it_waits_for(page: Page, played: Scene) -> None:
    at(page, "locks", "Locks")
    holder = page.locator("ul.waits > li", has_text="hourly load")
    expect(holder.locator("ul > li")).to_contain_text(f"{played.waiter} of ")
    expect(holder.locator("ul > li")).to_contain_text("waits for air.flights (X)")


def test_without_a_mouse_one_gets_everywhere(page: Page, played: Scene) -> None:
    at(page, "cluster", "Cluster")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("button", name="Pause")).to_be_focused()
    for _ in range(5):
        page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("link", name="Transactions")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Live transactions")
    expect(page.get_by_role("main")).to_be_focused()
    page.keyboard.press("Tab")  # the table scrolls by the arrow keys
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name=str(played.waiter), exact=True)).to_be_focused()


def test_it_refreshes_by_itself_until_it_is_paused_and_keeps_the_place(
    page: Page, cluster: LocalCluster, played: Scene
) -> None:
    at(page, "transactions", "Live transactions")
    page.get_by_role("link", name=str(played.holder), exact=True).focus()
    with connect(cluster) as client:
        begun = client.transaction("came meanwhile")
        expect(page.get_by_role("main")).to_contain_text("came meanwhile", timeout=MILLISECONDS)
        expect(page.get_by_role("link", name=str(played.holder), exact=True)).to_be_focused()
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_role("button", name="Pause")).to_have_attribute("aria-pressed", "true")
        begun.abort(reason="it was here to be seen")
        shown = page.locator("#as-of").inner_text()
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_role("main")).not_to_contain_text("came meanwhile", timeout=MILLISECONDS)
        assert page.locator("#as-of").inner_text() != shown


LONG = f"sales.{'x' * 194}"
OWNER = f"system:serviceaccount:air:{'y' * 90}"
SIZES = {0: "0 B", 1_023: "1023 B", 1_023 << 10: "1023 KiB", (1 << 20) - 1: "1.00 MiB", 10**12: "931 GiB"}
WAITED = {0.0004: "0.400 ms", 0.9996: "1.0 s", 0.99: "990 ms", 1_234_567.0: "14 d"}


def test_large_numbers_and_long_names_leave_room_for_the_rest(page: Page) -> None:
    """1023 KiB was 1.02e+3 KiB; a long name pushed all else out of the window."""
    now, table = "2026-01-02T03:04:05.000000Z", {"name": LONG, "damage": None, "row_changes": False, "location": LONG}
    tables = [{**table, "rows": 10**12, "files": 2**63, "conflict_strategy": "locks", "bytes": size} for size in SIZES]
    txn = {"id": 10**12, "state": "OPEN", "owner": OWNER, "label": "l" * 200, "begin": now, "last_transition": now}
    step = {"step": "commit", "count": 10**12, "refused": 0, "median_seconds": 1.0, "p99_seconds": None}
    told = {
        "tables": {"tables": tables, "compactions": [], "next": LONG},
        "transactions": {"transactions": [{**txn, "participants": [LONG, "b.c"] * 5_000}], "more": True},
        "slow": {"steps": [{**step, "mean_seconds": each} for each in WAITED], "slowest": []},
    }
    shown = {}
    for name, document in told.items():
        page.route(f"**/api/{name}", lambda route, *, told=document: route.fulfill(json={**told, "now": now}))
        page.goto(f"/console/#/{name}")
        expect(page.get_by_role("heading", level=1)).to_have_text(PAGES[name], timeout=MILLISECONDS)
        for wide in page.locator("html, .scroll").all():
            assert wide.evaluate("all => all.scrollWidth <= all.clientWidth"), f"{name} is wider than the window"
        shown[name] = page.get_by_role("main").inner_text()
    assert all(size in shown["tables"] for size in SIZES.values())
    assert all(each in shown["tables"] for each in ("1,000,000,000,000", "about 9,220,000,000,000,000,000"))
    assert all(each in shown["slow"] for each in WAITED.values())
    assert "and 9,995 more" in shown["transactions"]


@pytest.mark.usefixtures("played")
def test_it_is_dark_where_all_else_is(page: Page) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        at(page, "transactions", "Live transactions")
        seen[scheme] = page.evaluate(
            """() => {
              const channel = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
              const light = (colour) => {
                const [r, g, b] = colour.match(/\\d+/g).map(Number).map(channel);
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
              };
              const back = light(getComputedStyle(document.body).backgroundColor);
              const worst = [...document.querySelectorAll("main *, header *")].map((each) => {
                const front = light(getComputedStyle(each).color);
                return (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
              });
              return { back, contrast: Math.min(...worst) };
            }"""
        )
    assert seen["dark"]["back"] < 0.05 < 0.9 < seen["light"]["back"]
    assert min(each["contrast"] for each in seen.values()) >= 4.5, "WCAG 2.2, AA"


def test_where_nobody_answers_it_says_so_and_goes_on(chromium: Browser, cluster: LocalCluster) -> None:
    """It kills the node: the last test of its cluster."""
    page = chromium.new_page(base_url=f"http://{cluster.configs['n1'].http_address}")
    at(page, "transactions", "Live transactions")
    cluster.kill("n1")
    expect(page.get_by_role("alert")).to_contain_text("There is no news", timeout=MILLISECONDS)
    cluster.start_node("n1")
    expect(page.get_by_role("alert")).to_have_text("", timeout=MILLISECONDS)
    page.close()
