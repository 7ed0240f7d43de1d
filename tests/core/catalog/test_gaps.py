"""What was missing, merged and ranked (MISS-3)."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.core.catalog.gaps import WEIGHTS, GapSignal, Kind, mentions_lack, report

pytestmark = pytest.mark.proves("MISS-3")


def seen(*subjects: str, kind: Kind = "request", at: int = 1_000) -> list[GapSignal]:
    return [GapSignal(kind, subject, at + number, f"{kind}-{at + number}") for number, subject in enumerate(subjects)]


def names(found: list[dict[str, Any]]) -> list[str]:
    return [gap["capability"] for gap in found]


def test_near_duplicates_are_one_gap_with_their_count_and_examples() -> None:
    (gap,) = report(seen("export the report as a PDF", "Export report as PDF", "exporting reports to PDF files"))
    assert gap == {
        "capability": "Export report as PDF",
        "count": 3,
        "kinds": {"request": 3},
        "examples": [
            {"text": "exporting reports to PDF files", "kind": "request", "id": "request-1002"},
            {"text": "Export report as PDF", "kind": "request", "id": "request-1001"},
            {"text": "export the report as a PDF", "kind": "request", "id": "request-1000"},
        ],
        "first_seen_ms": 1000,
        "last_seen_ms": 1002,
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("export the report as a PDF", "export the invoices as a spreadsheet"),
        ("send an email", "read a calendar"),
        ("notion", "jira"),
        ("email", "email the weekly report to the whole team"),
    ],
)
def test_different_wishes_stay_apart(one: str, other: str) -> None:
    assert len(report(seen(one, other))) == 2


def test_wishes_searches_and_hints_about_the_same_are_one_gap() -> None:
    (gap,) = report(
        seen("send an SMS to a customer")
        + seen("send SMS to customers", kind="unmet_search")
        + seen("no tool to send an SMS to the customer", kind="passive")
    )
    assert gap["kinds"] == {"request": 1, "passive": 1, "unmet_search": 1}
    assert gap["capability"] == "send an SMS to a customer"


def test_one_explicit_request_comes_before_any_number_of_guesses() -> None:
    found = report(seen("print labels") + seen(*["translate this text"] * 500, kind="unmet_search"))
    assert names(found) == ["print labels", "translate this text"]


def test_more_weight_comes_first() -> None:
    found = report(seen("print labels") + seen("book a flight", "book a flight", kind="formal_request"))
    assert names(found) == ["book a flight", "print labels"]
    assert WEIGHTS["request"] > WEIGHTS["passive"] > WEIGHTS["unmet_search"] > WEIGHTS["refused"]


def test_a_tool_is_a_gap_once_it_was_refused_or_failed_again_and_is_never_merged_with_another() -> None:
    refused = seen("git:push", "git:push", "git:pull", kind="refused")
    found = report(refused + seen("git:push", kind="failing", at=5_000))
    assert [(gap["capability"], gap["kinds"]) for gap in found] == [("git:push", {"refused": 2, "failing": 1})]


def test_a_wish_of_nothing_but_marks_is_kept() -> None:
    assert set(names(report(seen("???", "日本語")))) == {"???", "日本語"}


@pytest.mark.parametrize(
    "said",
    [
        "There is no tool for PDF, so I read it",
        "I can't export, as a fallback I list",
        "the PDF export is missing",
    ],
)
def test_a_lack_said_in_passing_is_noticed(said: str) -> None:
    assert mentions_lack(said)


@pytest.mark.parametrize("said", ["Read the open issues", "Update the notion page", "", "looking for the cannon"])
def test_an_intent_that_is_just_an_intent_is_not(said: str) -> None:
    assert not mentions_lack(said)


WORDS = st.lists(
    st.sampled_from(["export", "import", "report", "pdf", "csv", "mail", "send", "notion", "chart"]),
    min_size=1,
    max_size=5,
)
SIGHTINGS = st.lists(
    st.builds(
        lambda kind, words, at, number: GapSignal(kind, " ".join(words), at, f"i{number}"),
        st.sampled_from([*WEIGHTS]), WORDS, st.integers(0, 50), st.integers(0, 10_000),
    ),
    max_size=40,
)  # fmt: skip


@given(SIGHTINGS, st.integers())
def test_the_order_in_which_things_were_seen_changes_nothing(sightings: list[GapSignal], seed: int) -> None:
    mixed = sightings[:]
    random.Random(seed).shuffle(mixed)
    assert report(mixed) == report(sightings)


@given(SIGHTINGS)
def test_every_wish_is_counted_once(sightings: list[GapSignal]) -> None:
    offers_requests = [one for one in sightings if one.kind not in ("refused", "failing")]
    assert sum(gap["count"] for gap in report(offers_requests)) == len(offers_requests)


@given(st.lists(st.text(max_size=600), max_size=10))
def test_no_text_of_a_stranger_breaks_the_report(texts: list[str]) -> None:
    assert len(report(seen(*texts, kind="unmet_search"))) <= len(texts)
