"""The view *Record* in a real browser: looking for records, pages, charts, files, deleting what one holds (USE-2)."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.page import story
from tests.support import chromium
from tests.support.chromium import LOOKS, Look, Visitor
from tests.support.gateway import Running, gateway

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.proves("USE-2")
MANY = 140
CLICKED = """() => {
  const asked = document.querySelector("dialog[aria-labelledby=dialog-title]");
  asked?.querySelector(".danger").click();
  return !asked;
}"""
"""A click just after a question appeared decides nothing, so it is clicked until it is gone."""


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """With a day on record that is over."""
    home = tmp_path_factory.mktemp("on-record")
    story.write(home / "data", MANY)
    with gateway(home / "data", {"mcpServers": {}}) as running:
        yield running


def ids(there: Visitor) -> list[str]:
    return there.page.locator("tbody tr[data-id]").evaluate_all("rows => rows.map((row) => row.dataset.id)")


def test_every_filter_is_a_field_and_its_view_has_a_link(visitor: Visitor, looked_at: Running) -> None:
    visitor.visit("record")
    visitor.page.get_by_text("More filters").click()
    values = {"Words": "release", "Server": "github", "Tool": "search_issues", "Client": "cursor", "Principal": "admin"}
    for label, value in values.items():
        visitor.page.get_by_label(label, exact=True).fill(value)
    visitor.page.get_by_role("combobox", name="Status", exact=True).select_option("success")
    visitor.page.get_by_role("combobox", name="Declared", exact=True).select_option("read")
    visitor.page.get_by_role("combobox", name="Kind", exact=True).select_option("tool_call")
    visitor.page.get_by_label("Tool", exact=True).press("Enter")
    visitor.page.wait_for_url("**/ui#record?*q=release*")
    visitor.page.locator("main .view.record:not([aria-busy])").wait_for()
    asked = {"q": "release", "status": "success", "intent_type": "read", "server": "github", "tool": "search_issues",
             "client": "cursor", "principal": "admin", "type": "tool_call"}  # fmt: skip
    found = [row["id"] for row in looked_at.get("/activity", limit=50, **asked)["activities"]]
    assert ids(visitor) == found
    assert found
    link = visitor.page.url
    visitor.visit("now")
    visitor.page.goto(link)
    visitor.page.locator(".view.record:not([aria-busy]) tr[data-id]").first.wait_for()
    assert ids(visitor) == found
    assert visitor.page.get_by_label("Words", exact=True).input_value() == "release"
    visitor.page.get_by_role("link", name="Clear").click()
    visitor.page.wait_for_url("**/ui#record")


def test_a_time_in_the_link_is_the_time_of_the_records(visitor: Visitor, looked_at: Running) -> None:
    visitor.visit("record?start_time=2026-03-12T16:41:40.000Z&end_time=2026-03-12T16:42:05.000Z")
    assert len(ids(visitor)) == 3
    assert visitor.page.get_by_label("From", exact=True).input_value() != ""
    visitor.page.get_by_role("button", name="Search").click()
    visitor.page.locator("main .view.record:not([aria-busy])").wait_for()
    assert len(ids(visitor)) == 3, "a field gives back the time that it was given"


def test_older_and_newer_lead_through_all_pages_and_back(visitor: Visitor, looked_at: Running) -> None:
    visitor.visit("record?type=tool_call")
    pages = [ids(visitor)]
    while (older := visitor.page.get_by_role("link", name="Older")).count():
        link = older.get_attribute("href")
        older.click()
        visitor.page.wait_for_url(f"**/ui{link}")
        other = "id => (document.querySelector('tr[data-id]')?.dataset.id ?? id) !== id"
        visitor.page.wait_for_function(other, arg=pages[-1][0])
        pages.append(ids(visitor))
    assert [len(page) for page in pages] == [50, 50, 46]
    assert [each for page in pages for each in page] == [row["id"] for row in looked_at.activities(type="tool_call")]
    for before in pages[-2::-1]:
        visitor.page.get_by_role("link", name="Newer").click()
        visitor.page.wait_for_function("id => document.querySelector('tr[data-id]')?.dataset.id === id", arg=before[0])
        assert ids(visitor) == before
    assert visitor.page.get_by_role("link", name="Newer").count() == 0


def test_the_charts_say_what_the_summary_says(visitor: Visitor, looked_at: Running) -> None:
    visitor.visit("record?server=github&end_time=2026-03-12T17:00:00.000Z")
    visitor.page.locator(".chart-grid").wait_for()
    said = looked_at.get("/activity/summary", server="github", end_time="2026-03-12T17:00:00Z")
    for rule, many in said["by_rule"].items():
        assert f"{rule}" in visitor.text("figure:has-text('Refused by')")
        assert str(many) in visitor.text("figure:has-text('Refused by')")
    table = visitor.page.locator("figure", has_text="Asks by hour")
    table.get_by_text("As a table").click()
    numbers = [int(each) for each in table.locator("tbody td.number").all_inner_texts()]
    assert sum(numbers) == said["total"]
    assert "github" in visitor.text("figure:has-text('How long servers took')")
    table.locator("tbody a").first.click()
    visitor.page.wait_for_url("**start_time=*end_time=*")


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_what_is_shown_can_be_kept_as_a_file(visitor: Visitor, looked_at: Running, form: str) -> None:
    visitor.visit("record?status=blocked")
    with visitor.page.expect_download() as download:
        visitor.page.get_by_role("button", name=f"Export {form.upper()}").click()
    text = Path(download.value.path()).read_text()
    rows = (
        list(csv.DictReader(text.splitlines())) if form == "csv" else [json.loads(line) for line in text.splitlines()]
    )
    wanted = [row["id"] for row in looked_at.activities(status="blocked")]
    assert [row["id"] for row in rows] == wanted
    assert wanted
    visitor.page.get_by_text(f"Saved activity.{form}").wait_for()


def test_what_is_too_much_for_a_browser_is_said_with_the_command_that_does_it(visitor: Visitor) -> None:
    visitor.page.route("**/activity/summary?*", lambda route: route.fulfill(json={"total": 812_000, "exact": False}))
    visitor.visit("record?status=blocked")
    visitor.page.get_by_text("812K records fit").wait_for()
    visitor.page.get_by_role("button", name="Export CSV").click()
    alert = visitor.page.get_by_role("alert")
    alert.wait_for()
    assert "mcpproxy activity export --status 'blocked' --format csv" in alert.inner_text()


def test_a_record_has_a_page_of_its_own(visitor: Visitor, looked_at: Running) -> None:
    (record,) = looked_at.get("/activity", status="blocked", limit=1)["activities"]
    visitor.visit(f"record/{record['id']}")
    said = visitor.text()
    assert record["metadata"]["refused_by"] in said
    assert record["error"]["message"] in said
    assert visitor.problems() == []


def test_an_id_that_is_not_there_says_so_and_the_next_step(browser: Browser, looked_at: Running) -> None:
    with chromium.visitor(browser, looked_at, excused=["404"]) as there:
        there.visit("record/nothing")
        assert "There is no activity 'nothing'" in there.page.get_by_role("alert").inner_text()
        assert "mcpproxy activity list" in there.page.get_by_role("alert").inner_text()


def test_what_one_holds_is_deleted_after_a_yes_and_not_without(visitor: Visitor, looked_at: Running) -> None:
    (record,) = looked_at.get("/activity", tool="create_issue", limit=1)["activities"]
    visitor.visit("record?tool=create_issue")
    visitor.page.locator(f"tr[data-id='{record['id']}']").get_by_role("button").first.click()
    delete = visitor.page.get_by_role("button", name="Delete arguments and answer…")
    delete.click()
    question = visitor.page.get_by_role("dialog", name="Delete arguments and answer?")
    question.get_by_role("button", name="Cancel").click()
    question.wait_for(state="detached")
    assert looked_at.get(f"/activity/{record['id']}")["arguments"] is not None
    delete.click()
    visitor.page.wait_for_function(CLICKED, polling=100)
    visitor.page.get_by_text("Arguments and answer were erased by admin").wait_for()
    after = looked_at.get(f"/activity/{record['id']}")
    assert (after["arguments"], after["response"], after["status"]) == (None, None, record["status"])


def test_it_works_by_keyboard_alone(visitor: Visitor, looked_at: Running) -> None:
    visitor.visit("record?type=tool_call")
    first = ids(visitor)[0]
    visitor.page.locator("tbody tr button").first.focus()
    visitor.page.keyboard.press("Enter")
    visitor.page.locator("dialog .record-detail").wait_for()
    for _ in range(30):
        visitor.page.keyboard.press("Tab")
        if visitor.page.evaluate("document.activeElement.textContent").startswith("Delete arguments"):
            break
    assert visitor.page.evaluate("document.activeElement.tagName") == "BUTTON"
    visitor.page.keyboard.press("Enter")
    visitor.page.get_by_role("dialog", name="Delete arguments and answer?").wait_for()
    assert visitor.page.evaluate("document.activeElement.textContent") == "Cancel"
    visitor.page.keyboard.press("Enter")
    visitor.page.keyboard.press("Escape")
    visitor.page.get_by_role("dialog").first.wait_for(state="detached")
    assert visitor.page.evaluate("document.activeElement.closest('tr').dataset.id") == first


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_it_fits_the_window_and_reads_well(browser: Browser, looked_at: Running, look: Look) -> None:
    with chromium.visitor(browser, looked_at, look) as there:
        there.visit("record")
        there.page.get_by_text("More filters").click()
        if look.width < 640:
            there.page.get_by_text("Charts", exact=True).click()
        there.page.locator(".chart-grid").wait_for()
        there.page.get_by_text("As a table").click()
        assert there.overflow() == []
        assert there.problems(only_colours=look.scheme == "dark") == []
