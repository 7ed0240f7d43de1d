"""The configuration file."""

from __future__ import annotations

import json
from collections.abc import Hashable

from mcpproxy_py.settings import validate_text
from mcpproxy_py.settings.document import Comment, parse, render, without_comments


def read_config(data: bytes) -> Hashable:
    """Any text: what it says, or sentences of what is wrong with it; a key that stands twice is always said; an edit
    that changes nothing keeps everything, comments too."""
    text = data.decode("utf-8", "replace")
    value, problems = parse(text.removeprefix("\ufeff"))
    assert all(problem.text and len(problem.text) < 2000 for problem in problems)
    if value is not None and not problems:
        written = render(value)
        again, found = parse(written)
        assert not found, found
        assert without_comments(again) == without_comments(value)
        assert render(again) == written, "an edit that changes nothing changes something"
        strict = json.loads(text.removeprefix("\ufeff"))
        if isinstance(strict, dict):
            assert not any(key.startswith("//") for key in without_comments(value))
            assert all(isinstance(key, Comment) or not key.startswith("//") for key in value)
    told = validate_text(text, origin="config")
    assert all(isinstance(each, str) and each.startswith("config") for each in told), told
    assert not problems or told, "something is wrong, and nobody says so"
    return min(len(problems), 2), min(len(told), 3)
