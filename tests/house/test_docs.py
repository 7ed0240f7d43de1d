"""The documents say what is so: commands, settings, links and printed pages are compared with the code (USE-5)."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import typer

from mcpproxy_py.bench import reference_page as bench_reference
from mcpproxy_py.cli import main, reference_page
from mcpproxy_py.serve.rest import reference_page as rest_reference
from mcpproxy_py.settings import ServerSettings, validate_text
from mcpproxy_py.settings.environment import known_keys, variable_for
from mcpproxy_py.settings.reference_page import reference as configuration
from tests.house import gap_reference, gate_reference, methods_reference, pins_reference
from tests.house.markdown import PAGES, ROOT, Fence, Page, our_arguments, simple_commands

pytestmark = pytest.mark.proves("USE-5")

RUN_LINE = "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/mcpproxy serve"
TEST_LINE = "python3 -m venv .venv && .venv/bin/pip install -q -e '.[dev]' && .venv/bin/python -m pytest -n auto"
PRINTED: dict[str, Callable[[], str]] = {
    "gate.md": gate_reference.reference,
    "gap.md": gap_reference.reference,
    "configuration.md": configuration,
    "commands.md": reference_page.page,
    "rest.md": rest_reference.page,
    "catalog-benchmark.md": bench_reference.page,
    "pins.md": pins_reference.page,
    "methods.md": methods_reference.page,
}
WRITTEN = [page for page in PAGES if page.path.parent.name != "reference"]
"""Pages that people write; the others are compared with the code as a whole."""

every_page = pytest.mark.parametrize("page", PAGES, ids=str)
written_page = pytest.mark.parametrize("page", WRITTEN, ids=str)


def page(name: str) -> Page:
    return next(page for page in PAGES if str(page) == name)


def shell_text(page: Page) -> str:
    return "\n".join(fence.text for fence in page.fences if fence.language == "bash")


# The two lines.


def test_one_line_of_the_readme_sets_up_and_runs_the_gateway() -> None:
    assert RUN_LINE in shell_text(page("README.md")).splitlines()


def test_the_line_that_tests_is_the_one_that_ci_runs() -> None:
    assert TEST_LINE in shell_text(page("README.md")).splitlines()
    assert TEST_LINE in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_the_readme_shows_docker_run_with_the_strict_switch_as_a_variable() -> None:
    docker = [words for words in page("README.md").commands() if words[:2] == ["docker", "run"]]
    assert any(f"{variable_for('intent_declaration.strict_server_validation')}=false" in words for words in docker)


# Printed pages.


@pytest.mark.parametrize("name", PRINTED)
def test_a_printed_page_says_what_the_code_says_now(name: str) -> None:
    assert (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8") == PRINTED[name](), "print it again"


def test_every_reference_page_is_printed() -> None:
    assert {path.name for path in (ROOT / "docs" / "reference").iterdir()} == set(PRINTED)


@pytest.mark.proves("GATE-9")
def test_every_rung_of_the_ladder_is_numbered_and_documented() -> None:
    text = page("docs/reference/gate.md").text
    for number, rule, meaning in gate_reference.ladder():
        assert f"| {number} | {rule} | {meaning} |" in text


# Links.


@every_page
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Page) -> None:
    for link in page.links:
        if "://" in link:
            continue
        target, _, fragment = unquote(link).partition("#")
        path = (page.path.parent / target).resolve() if target else page.path
        assert path.exists(), f"{link} leads nowhere"
        if fragment:
            assert fragment in Page(path).anchors, f"{link} names no heading"


def test_every_document_is_in_the_index() -> None:
    index = page("docs/README.md")
    linked = {(index.path.parent / link).resolve() for link in index.links if "://" not in link}
    assert {path.resolve() for path in (ROOT / "docs").glob("*/*.md")} <= linked


def test_every_example_configuration_is_explained_somewhere() -> None:
    for path in (ROOT / "config").iterdir():
        assert any(f"config/{path.name}" in page.text for page in WRITTEN), f"nothing mentions {path.name}"


# Commands.


def typed() -> Iterator[tuple[Page, list[str]]]:
    """Commands to copy, from shell blocks."""
    for page in PAGES:
        yield from ((page, ours) for words in page.commands() if (ours := our_arguments(words)) is not None)


def mentioned() -> Iterator[tuple[Page, list[str]]]:
    """Commands in running text. Those that leave something open (`…`, `HOST:PORT`) cannot be parsed."""
    for page in PAGES:
        for code in page.code:
            if re.match(r"mcpproxy [a-z]", code) and not re.search(r"[…\[]|[A-Z]{2}|\.\.\.", code):
                yield from ((page, words[1:]) for words in simple_commands(code))


def cases(found: Iterator[tuple[Page, list[str]]]) -> list[Any]:
    return [pytest.param(words, id=f"{page}: {' '.join(words)[:80]}") for page, words in found]


TYPED, MENTIONED = cases(typed()), cases(mentioned())


def test_commands_are_found_in_the_documents() -> None:
    assert len(TYPED) > 30
    assert len(MENTIONED) > 10


@pytest.mark.parametrize("words", TYPED)
def test_a_documented_command_is_one_that_can_be_typed(words: list[str]) -> None:
    assert words, "mcpproxy alone only prints its help"
    assert "--install-completion" not in words, "parsing it would run it"
    parse(words)


@pytest.mark.parametrize("words", MENTIONED)
def test_a_command_that_is_only_mentioned_exists_with_its_options(words: list[str]) -> None:
    try:
        parse(words)
    except Exception as error:
        # Typer brings its own copy of click, whose exceptions have no public name.
        if type(error).__name__ not in ("MissingParameter", "NoArgsIsHelpError"):
            raise


def parse(words: list[str]) -> None:
    """Through the command tree as far as running it. Raises where an option, a value or an argument is wrong."""
    command: Any = typer.main.get_command(main.app)
    name, context = "mcpproxy", None
    words = _without_redirection(words)
    while True:
        context = command.make_context(name, words, parent=context)
        if not hasattr(command, "resolve_command"):
            return
        name, command, words = command.resolve_command(context, [*context._protected_args, *context.args])


def _without_redirection(words: list[str]) -> list[str]:
    return words[: next((at for at, word in enumerate(words) if word.startswith((">", "2>", "<"))), len(words))]


@pytest.mark.parametrize(
    "wrong",
    [["serv"], ["serve", "--prot", "1"], ["tools", "search"], ["activity", "export", "--format", "xml"]],
    ids=" ".join,
)
def test_a_command_that_cannot_be_typed_is_noticed(wrong: list[str]) -> None:
    with pytest.raises(Exception) as noticed:
        parse(wrong)
    assert type(noticed.value).__name__ in ("UsageError", "NoSuchOption", "MissingParameter", "BadParameter")


def test_modules_that_are_run_exist() -> None:
    for found in PAGES:
        for module in re.findall(r"python3? -m (tests[\w.]*|mcpproxy_py[\w.]*)", found.text):
            assert importlib.util.find_spec(module), f"{found}: no module {module}"


# Settings.


SECTIONS = {key.split(".")[0] for key, _ in known_keys() if "." in key}
KEYS = {key for key, _ in known_keys()}
FILE_TYPES = {"py", "db", "json", "jsonl", "csv"}
ELSEWHERE = {"MCPPROXY_CONFIG", "MCPPROXY_DATA_DIR", "MCPPROXY_LISTEN", "MCPPROXY_API_KEY"}
SERVER_KEYS = set(ServerSettings.model_fields)


@every_page
def test_every_setting_named_with_its_section_exists(page: Page) -> None:
    for code in page.code:
        section, dot, key = code.partition(".")
        if dot and section in SECTIONS and re.fullmatch(r"[a-z_]+", key) and key not in FILE_TYPES:
            assert code in KEYS, f"there is no setting {code}"


@written_page
def test_every_variable_of_ours_exists(page: Page) -> None:
    known = {variable_for(key) for key, _ in known_keys()} | ELSEWHERE
    for name in set(re.findall(r"MCPPROXY_[A-Z][A-Z_]*[A-Z]", page.text)):
        assert name in known, f"there is no variable {name}"


def test_the_settings_that_decide_are_explained() -> None:
    explained = "\n".join(page.text for page in WRITTEN)
    for key in sorted(KEYS):
        if key.startswith("intent_declaration."):
            assert key in explained, f"nothing explains {key}"
    for key in ("trust_annotations", "deny_tools", "allow_tools", "confirm", "tools", "lazy"):
        assert key in SERVER_KEYS
        assert re.search(rf"[`\"]{key}\b", explained), f"nothing explains {key}"


# Snippets.


@every_page
def test_every_json_and_toml_snippet_can_be_read(page: Page) -> None:
    for fence in page.fences:
        if fence.language == "json":
            json.loads(fence.text if fence.text.lstrip().startswith(("{", "[")) else "{" + fence.text + "}")
        elif fence.language == "toml":
            tomllib.loads(fence.text)
        elif fence.language == "python":
            ast.parse(fence.text + "\ndef test(): ...")


def our_configurations() -> Iterator[tuple[Page, Fence]]:
    return ((page, fence) for page in PAGES for fence in page.fences if fence.info == "mcp_config")


def test_every_configuration_of_ours_in_the_documents_is_right() -> None:
    found = list(our_configurations())
    assert len(found) > 5
    for page, fence in found:
        assert validate_text(fence.text, origin=str(page)) == []


def test_clients_that_launch_a_command_launch_one_that_exists() -> None:
    for found in PAGES:
        for fence in found.fences:
            if fence.language == "json" and fence.info != "mcp_config" and '"command"' in fence.text:
                for server in _servers(json.loads(fence.text)):
                    parse(server["args"])


def _servers(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for servers in (document.get("mcpServers", {}), document.get("servers", {})):
        yield from (server for server in servers.values() if Path(server.get("command", "")).name == "mcpproxy")


@pytest.mark.proves("GATE-8")
def test_every_override_by_arguments_in_documents_and_examples_falls_back_to_destructive() -> None:
    texts = [fence.text for _, fence in our_configurations()]
    texts += [path.read_text(encoding="utf-8") for path in (ROOT / "config").glob("*.json")]
    overrides = [entries for text in texts for entries in _overrides(json.loads(text))]
    assert len(overrides) > 2
    assert all(entries[-1] == {"class": "destructive"} for entries in overrides)


def _overrides(document: dict[str, Any]) -> Iterator[list[Any]]:
    for server in document.get("mcpServers", {}).values():
        if isinstance(server, dict):
            yield from (entries for entries in server.get("tools", {}).values() if isinstance(entries, list))


@pytest.mark.proves("GATE-8")
def test_the_documents_say_that_matching_sql_by_pattern_can_be_fooled() -> None:
    for name in ("docs/howto/class-overrides.md", "docs/reference/configuration.md"):
        assert "SQL by pattern can be fooled" in page(name).text


@pytest.mark.proves("SEC-1")
def test_the_threat_model_says_what_an_agent_with_a_shell_can_do_and_what_to_do_about_it() -> None:
    text = page("docs/explanation/threat-model.md").text
    for said in ("with a shell", "read the admin key", "edit the configuration", "itself", "another user", "Docker"):
        assert said in text


MODULE = re.compile(r"(?<![\w./-])(?:[a-z_]+/)+[a-z_0-9]+\.py\b")


@pytest.mark.parametrize(
    "page", [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md", ROOT / "README.md"],
    ids=lambda path: str(path.relative_to(ROOT)),
)  # fmt: skip
def test_a_module_that_a_page_names_is_there(page: Path) -> None:
    named = set(MODULE.findall(page.read_text(encoding="utf-8")))
    assert not {name for name in named if not (ROOT / name).exists() and not (ROOT / "mcpproxy_py" / name).exists()}


def test_a_class_that_the_design_names_is_there() -> None:
    defined = {
        name
        for path in (ROOT / "mcpproxy_py").rglob("*.py")
        for name in re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    named = set(re.findall(r"\b(?:[A-Z][a-z]+){2,}\b", page("docs/explanation/design.md").text)) - NOT_OURS
    assert len(named) > 15 and not named - defined


NOT_OURS = {"ClientSession", "OpenMetrics"}
"""Of the SDK, and words of the field."""
