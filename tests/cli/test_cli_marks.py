"""Nothing from outside drives the terminal, in whichever form it is printed (CLI-3)."""

from __future__ import annotations

import json

import pytest
import yaml

from mcpproxy_py.cli.output import _CONTROL, Format, clean, dump

MARKS = (
    "\u202e\u202d\u2066\u2067\u2069\u200e\u200f\u061c\u200b\u2060\ufeff\u2028\u2029\x1b[2J\x07\x08\r\x85\x9b\x00"
    "\U000e0041"
)
VALUE = {
    "name": f"safe{MARKS}gpj.exe",
    f"key{MARKS}": [f"a{mark}b" for mark in MARKS],
    "plain": "ünïcödé 日本語 👩‍💻\nsecond line\tand a tab",
    "lines": f"one\ntwo {MARKS}\nthree",
    "number": "12",
}


@pytest.mark.parametrize("form", [Format.YAML, Format.JSON])
def test_marks_are_escaped_and_read_back_as_they_were(form: Format, capsys: pytest.CaptureFixture[str]) -> None:
    dump(VALUE, form)
    text = capsys.readouterr().out
    assert not _CONTROL.search(text)
    assert (yaml.safe_load(text) if form is Format.YAML else json.loads(text)) == VALUE
    assert "ünïcödé 日本語" in text


def test_tables_have_none_of_them() -> None:
    assert not _CONTROL.search(clean(VALUE["name"]))


def test_a_command_prints_none_of_them(run, gateway) -> None:
    row = {"name": f"notes{MARKS}", "state": "connected", "tool_count": 1, "transport": "stdio", "error": MARKS}
    gateway.answer("GET", "/servers", {"servers": [row]})
    for form in Format:
        ran = run("upstream", "list", "-o", form.value)
        assert ran.status == 0, ran.err
        assert "notes" in ran.out and not _CONTROL.search(ran.out)
