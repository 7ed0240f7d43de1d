"""What another class of a tool would have done to calls that are on record (USE-9)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mcpproxy_py.core.record.class_effects import ClassEffect, effect, said
from mcpproxy_py.core.values import Override, Policy, Tool

pytestmark = pytest.mark.proves("USE-9")

TOOL = Tool("notes", "tidy", {"name": "tidy", "inputSchema": {"type": "object"}}, "unknown")


def row(variant: str, status: str = "success", code: str | None = None, surface: str = "gate") -> dict[str, Any]:
    error = {"code": code} if code else None
    return {"id": f"{variant}-{status}", "timestamp": "2026-01-31T09:00:00Z", "surface": surface, "status": status,
            "error": error, "metadata": {"tool_variant": f"call_tool_{variant}"}}  # fmt: skip


def classed(tool_class: Any) -> Tool:
    return replace(TOOL, overrides=((Override(tool_class),),))


def counts(found: ClassEffect) -> tuple[int, int, int, int]:
    return found.looked_at, found.refused, found.allowed, found.asked


ROWS = [row("read"), row("write"), row("destructive"), row("read", "error"), row("read", "blocked", "FROZEN")]


@pytest.mark.parametrize(
    ("after", "refused"), [("read", 0), ("write", 2), ("destructive", 3)],
)  # fmt: skip
def test_calls_that_went_through_and_would_have_been_refused(after: str, refused: int) -> None:
    assert counts(effect(ROWS, TOOL, classed(after), Policy(), "none")) == (5, refused, 0, 0)


def test_permissive_mode_refuses_nothing_for_its_class() -> None:
    assert counts(effect(ROWS, TOOL, classed("destructive"), Policy(strict=False), "none")) == (5, 0, 0, 0)


def test_calls_that_were_refused_for_the_class_alone_and_would_have_gone_through() -> None:
    rows = [row("read", "blocked", "SERVER_MISMATCH"), row("read", "blocked", "TOOL_UNAVAILABLE")]
    assert counts(effect(rows, classed("destructive"), classed("read"), Policy(), "none")) == (2, 0, 1, 0)


def test_where_nobody_declares_anything_the_class_refuses_nothing_and_may_ask() -> None:
    rows = [row("write", surface="direct")]
    assert counts(effect(rows, TOOL, classed("destructive"), Policy(), "destructive")) == (1, 0, 0, 1)
    assert counts(effect([row("destructive")], TOOL, classed("destructive"), Policy(), "destructive")) == (1, 0, 0, 0)


def test_an_override_that_depends_on_arguments_counts_as_its_highest_class() -> None:
    some = replace(TOOL, overrides=((Override("read", lambda args: True), Override("destructive")),))
    assert effect([row("write")], TOOL, some, Policy(), "none").refused == 1


def test_it_is_said_in_a_sentence() -> None:
    assert said(effect([], TOOL, classed("read"), Policy(), "none")) == "No call of it is on record."
    found = effect(ROWS, TOOL, classed("destructive"), Policy(), "none")
    assert said(found) == "3 of the last 5 calls would have been refused."
    assert [each["would"] for each in found.examples] == ["refused"] * 3
    calm = effect([row("destructive")], TOOL, classed("destructive"), Policy(), "none")
    assert said(calm) == "Of the last call, none would have gone otherwise."
