from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

RESULT = {"content": [{"type": "text", "text": "three issues"}]}


def answered(**changes: Any) -> dict[str, Any]:
    return {"id": "01A", "status": "success", "result": RESULT, "warning": None, **changes}


@pytest.mark.proves("CLI-1")
@pytest.mark.parametrize("variant", ["read", "write", "destructive"])
def test_the_command_is_both_the_variant_and_the_declared_operation(run, gateway, variant) -> None:
    gateway.answer("POST", "/call", answered())
    ran = run(
        "call", f"tool-{variant}", "--tool-name", "github:list_issues", "--reason", "triage", "--sensitivity", "private"
    )
    assert (ran.status, ran.out, ran.err) == (0, "three issues\n", "")
    assert gateway.seen[-1].body == {
        "variant": variant,
        "name": "github:list_issues",
        "intent": {"operation_type": variant, "data_sensitivity": "private", "reason": "triage"},
    }


@pytest.mark.proves("CLI-1")
@pytest.mark.parametrize("option", ["--json_args", "--json-args"])
def test_arguments_travel_as_the_text_that_was_typed(run, gateway, option) -> None:
    gateway.answer("POST", "/call", answered())
    text = '{"n": 123456789012345678901234567890, "x": 1.10}'
    assert run("call", "tool-read", "--tool-name=a:b", option, text).status == 0
    assert gateway.seen[-1].body["args_json"] == text


@pytest.mark.proves("CLI-1")
def test_arguments_are_read_from_a_file_and_from_stdin(run, gateway, tmp_path: Path) -> None:
    gateway.answer("POST", "/call", answered())
    file = tmp_path / "args.json"
    file.write_text('{"from": "file"}')
    run("call", "tool-read", "--tool-name", "a:b", "--json_args", f"@{file}")
    run("call", "tool-read", "--tool-name", "a:b", "--json_args", "-", stdin='{"from": "stdin"}')
    assert [json.loads(seen.body["args_json"])["from"] for seen in gateway.seen] == ["file", "stdin"]


@pytest.mark.proves("CLI-1", "CLI-2")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": }', "line 1 column 7"),
        ("[1]", "must be a JSON object, not array"),
        ("{", "line 1 column 2"),
        ('{"a": NaN}', "NaN"),
        ('{"a": 1e999}', "not finite"),
        ("@/no/such/file", "No such file"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "nested"),
    ],
)
def test_arguments_that_are_not_a_json_object_never_leave_this_process(run, gateway, text, said) -> None:
    ran = run("call", "tool-read", "--tool-name", "a:b", "--json_args", text)
    assert ran.status == 2
    assert said in ran.err
    assert gateway.seen == []


@pytest.mark.proves("CLI-2")
def test_a_refusal_exits_3_with_its_message_and_remedy_on_stderr(run, gateway) -> None:
    message = "Tool 'github:delete_repo' is marked destructive by server, use call_tool_destructive"
    gateway.refuse("POST", "/call", 403, "SERVER_MISMATCH", message, remedy="call call_tool_destructive")
    ran = run("call", "tool-read", "--tool-name", "github:delete_repo")
    assert (ran.status, ran.out) == (3, "")
    assert ran.err == (
        "Error: Tool 'github:delete_repo' is marked destructive by server, use `mcpproxy call tool-destructive`\n"
        "  If that is what you want, with the same arguments: mcpproxy call tool-destructive github:delete_repo\n"
    )


@pytest.mark.proves("CLI-2")
def test_a_refusal_is_the_one_error_shape_for_programs(run, gateway) -> None:
    gateway.refuse("POST", "/call", 423, "FROZEN", "frozen", rule="freeze")
    ran = run("call", "tool-write", "--tool-name", "a:b", "-o", "json")
    assert (ran.status, ran.out) == (3, "")
    assert json.loads(ran.err)["error"]["code"] == "FROZEN"
    assert json.loads(ran.err)["error"]["details"] == {"rule": "freeze"}


@pytest.mark.proves("CLI-2")
def test_a_tool_that_failed_exits_1_and_leaves_stdout_empty(run, gateway) -> None:
    result = {"content": [{"type": "text", "text": "no such issue"}], "isError": True}
    gateway.answer("POST", "/call", answered(status="error", result=result))
    ran = run("call", "tool-read", "--tool-name", "a:b")
    assert (ran.status, ran.out, ran.err) == (1, "", "Error from a:b: no such issue\n")
    ran = run("call", "tool-read", "--tool-name", "a:b", "-o", "json")
    assert (ran.status, ran.json["result"]) == (1, result)


def test_a_warning_of_the_gate_goes_to_stderr(run, gateway) -> None:
    gateway.answer("POST", "/call", answered(warning="call_tool_read is enough"))
    ran = run("call", "tool-write", "--tool-name", "a:b")
    assert (ran.out, ran.err) == ("three issues\n", "Warning: call_tool_read is enough\n")


def test_content_that_is_not_text_is_described(run, gateway) -> None:
    content = [
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "resource_link", "uri": "file:///x", "name": "x"},
        {"type": "resource", "resource": {"uri": "file:///y", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "file:///z", "blob": "AAAA", "mimeType": "a/b"}},
    ]
    gateway.answer("POST", "/call", answered(result={"content": content}))
    assert run("call", "tool-read", "--tool-name", "a:b").out.splitlines() == [
        "[image: image/png, about 3 bytes; -o json shows them]",
        "[x: file:///x]",
        "inside",
        "[file:///z: a/b, about 3 bytes; -o json shows them]",
    ]


def test_a_structured_result_without_content_is_printed_as_json(run, gateway) -> None:
    gateway.answer("POST", "/call", answered(result={"content": [], "structuredContent": {"n": 1}}))
    assert run("call", "tool-read", "--tool-name", "a:b").json == {"n": 1}


@pytest.mark.proves("CLI-2")
@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("a\x9b31mb", "a31mb"),
        ("over\rwritten", "overwritten"),
        ("safe\u202eexe.txt", "safeexe.txt"),
        ("\x1b]52;c;aGk=\x1b\\x", "x"),
        ("bell\x07\x00", "bell"),
        ("kept\n\ttabs", "kept\n\ttabs"),
    ],
)
def test_nothing_a_tool_answers_can_drive_the_terminal(run, gateway, hostile, shown) -> None:
    gateway.answer("POST", "/call", answered(result={"content": [{"type": "text", "text": hostile}]}))
    assert run("call", "tool-read", "--tool-name", "a:b").out == shown + "\n"
    ran = run("call", "tool-read", "--tool-name", "a:b", "-o", "json")
    assert ran.json["result"]["content"][0]["text"] == hostile
    assert not any(char in ran.out for char in "\x1b\x9b\x07\r\u202e")


EXPLAINED = {
    "variant": "call_tool_read",
    "decision": {},
    "refusal": {"code": "SERVER_MISMATCH", "remedy": "call call_tool_write"},
    "rungs": [
        {"number": 1, "rule": "shape", "outcome": "passed", "message": ""},
        {"number": 2, "rule": "class", "outcome": "failed", "message": "marked destructive"},
        {"number": 3, "rule": "freeze", "outcome": "not reached", "message": ""},
    ],
}


@pytest.mark.proves("GATE-9")
def test_explain_shows_every_rung_and_is_no_failure(run, gateway) -> None:
    gateway.answer("POST", "/explain", EXPLAINED)
    ran = run("explain", "a:b", "--variant", "read", "--args", '{"x": 1}')
    assert ran.status == 0
    assert ran.out.splitlines() == [
        "#  RULE    OUTCOME      MESSAGE",
        "1  shape   passed       -",
        "2  class   failed       marked destructive",
        "3  freeze  not reached  -",
        "call_tool_read would be refused: SERVER_MISMATCH.",
        "  call call_tool_write",
    ]
    assert gateway.seen[-1].body == {
        "name": "a:b", "variant": "read", "intent": {"operation_type": "read"}, "args_json": '{"x": 1}',
    }  # fmt: skip


@pytest.mark.proves("GATE-9")
def test_explain_check_exits_3_unless_every_rung_passed(run, gateway) -> None:
    gateway.answer("POST", "/explain", EXPLAINED)
    assert run("explain", "a:b", "--check").status == 3
    gateway.answer("POST", "/explain", {"refusal": None, "rungs": []})
    assert run("explain", "a:b", "--check").status == 3
    gateway.answer("POST", "/explain", {**EXPLAINED, "refusal": None, "rungs": EXPLAINED["rungs"][:1]})
    assert run("explain", "a:b", "--check").status == 0
    assert gateway.seen[-1].body == {"name": "a:b"}


def test_the_tool_is_named_as_an_argument_or_as_an_option_and_not_as_two(run, gateway) -> None:
    gateway.answer("POST", "/call", {"id": "1", "status": "success", "result": {"content": []}, "warning": None})
    for words in (["time:now"], ["--tool-name", "time:now"], ["time:now", "--tool-name", "time:now"]):
        assert run("call", "tool-read", *words).status == 0
    assert [seen.body["name"] for seen in gateway.seen] == ["time:now"] * 3
    for words in ([], ["time:now", "--tool-name", "time:then"]):
        assert run("call", "tool-read", *words).status == 2
    assert len(gateway.seen) == 3
