"""The tables of what is done of the security guidance on MCP: complete, honest, and true in what they name (USE-5)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from mcpproxy_py.errors import Code
from mcpproxy_py.settings import ServerSettings
from mcpproxy_py.settings.environment import known_keys
from tests.house.markdown import PAGES, ROOT

pytestmark = pytest.mark.proves("USE-5")

PAGE = next(page for page in PAGES if page.path.name == "security-guidance.md")
NSA = [
    "Choose supported MCP projects when possible",
    "Design for boundaries",
    "Validate parameters",
    "Constrain and sandbox tool execution",
    "Sign and verify MCP messages",
    "Filter and monitor output pipelines and chained execution",
    "Instrument for logging and detection",
    "Track and patch MCP related vulnerabilities",
    "Scan local network for open or vulnerable MCP servers",
]
OWASP = [
    "MCP01:2025 Token Mismanagement & Secret Exposure",
    "MCP02:2025 Privilege Escalation via Scope Creep",
    "MCP03:2025 Tool Poisoning",
    "MCP04:2025 Software Supply Chain Attacks & Dependency Tampering",
    "MCP05:2025 Command Injection & Execution",
    "MCP06:2025 Intent Flow Subversion",
    "MCP07:2025 Insufficient Authentication & Authorization",
    "MCP08:2025 Lack of Audit and Telemetry",
    "MCP09:2025 Shadow MCP Servers",
    "MCP10:2025 Context Injection & Over-Sharing",
]
SETTINGS = {key for key, _ in known_keys()} | set(ServerSettings.model_fields)
OTHER_WORDS = {"npx", "_meta", "chain.key", "http://", "data_sensitivity", 'sessions: "per_client"'}
"""Words of the protocol, and files of the data directory."""
LINK = re.compile(r"\[[^\]]+\]\([^)]+\)")
CODE = re.compile(r"`([^`]+)`")


def rows(table: int) -> Iterator[list[str]]:
    """The cells of each row of a table, the head left out."""
    tables = re.findall(r"(?:^\|.*\n)+", PAGE.text, re.MULTILINE)
    for line in tables[table].splitlines()[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize(("table", "names"), [(0, NSA), (1, OWASP)], ids=["NSA", "OWASP"])
def test_every_entry_is_there_by_its_name_with_what_is_done_where_and_what_is_not(table: int, names: list[str]) -> None:
    found = list(rows(table))
    assert [row[0] for row in found] == names
    for name, done, where, not_done in found:
        assert len(done) > 20 and len(not_done) > 20, name
        assert LINK.search(where) or CODE.search(where), f"{name}: where?"


def test_a_table_names_settings_files_and_commands_that_exist() -> None:
    """Links and commands are checked on every page, by `test_docs`."""
    for word in {word for table in (0, 1) for row in rows(table) for cell in row for word in CODE.findall(cell)}:
        known = word in SETTINGS or word in OTHER_WORDS or word in list(Code) or word.startswith("mcpproxy ")
        assert known or (ROOT / word).exists(), f"there is no {word}"


def test_every_test_that_is_named_holds_something() -> None:
    named = set(re.findall(r"tests/[\w/]+\.py", PAGE.text))
    assert len(named) > 10
    for name in named:
        assert re.search(r"^(async )?def test_", (ROOT / name).read_text(), re.MULTILINE), f"no test in {name}"


def test_it_says_where_the_names_are_from_and_that_one_list_is_second_hand() -> None:
    assert "SECONDARY" in PAGE.text and "We did not have the\ndocument itself" in PAGE.text
    assert "4774c5e" in PAGE.text


def test_how_to_report_is_said_and_what_counts_is_in_the_threat_model() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    for said in (
        "privately",
        "Report a vulnerability",
        "What counts",
        "What does not",
        "threat-model.md#an-agent-with",
    ):
        assert said in text
