"""The manifest: every code of SPEC.md, and the tests that prove those which are done.

A test says what it proves with `@pytest.mark.proves("GATE-3")`; `tests/house/test_requirements.py` checks
both ways that this list and those marks agree, so that neither can rot. To bring `DONE` up to date after
adding or moving marks: `python -m tests.requirements`.

A code is done when all its sentence asks for works. What is proven in part stays in `NOT_YET`, with what is
missing, also where some tests already name it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
BEGIN, END = "# --- made by `python -m tests.requirements` ---\n", "# --- end ---\n"

NOT_YET: dict[str, str] = {
    "SURF-2": "issue 3: the direct surface",
    "SURF-3": "issue 3: the passthrough surface",
    "SURF-4": "issue 3: only the gate is there to choose; other names are refused",
    "SURF-6": "issue 3: both eras reach the gate and any upstream; what an upstream asks in mid-call is not bridged yet",
    "SURF-7": "issue 3: the conformance suite",
    "SURF-8": "issue 3: resources/read",
    "UP-4": "issue 3: a changed list refreshes the snapshot; nothing goes on to clients yet",
    "UP-5": "issue 3: progress and cancellation pass; elicitation, sampling and roots do not",
    "UP-6": "issue 3: tools and results are relayed whole; the fidelity suite is still to come",
    "UP-8": "issue 3: edits by command and REST apply at once; the file is not watched yet",
    "UP-9": "later: OAuth",
    "CAT-1": "issue 4", "CAT-2": "issue 4", "CAT-3": "issue 4", "CAT-4": "issue 4", "CAT-5": "issue 4",
    "CAT-6": "issue 4", "CAT-7": "issue 4", "CAT-8": "issue 4", "CAT-9": "issue 4", "GAP-1": "issue 4",
    "PROV-1": "issue 4", "PROV-2": "issue 4", "PROV-3": "issue 4", "PROV-4": "issue 4", "PROV-5": "issue 4",
    "MISS-1": "issue 4: request_capability works; it and the catalog do not name each other both ways yet",
    "MISS-2": "issue 3: the passive intent", "MISS-3": "issue 4: the gaps report",
    "ACT-3": "issue 5: everything but /events", "ACT-4": "issue 5: everything but watch and verify",
    "ACT-6": "issue 5", "ACT-7": "issue 5", "ACT-8": "issue 5",
    "ACT-9": "issue 5: masking works; the labelled corpus is still to come",
    "SEC-2": "later", "SEC-3": "later", "SEC-4": "later: what must be confirmed is refused", "SEC-5": "issue 3",
    "PERF-1": "issue 3: measured against this issue's targets", "PERF-2": "issue 3: the decision is measured",
    "PERF-3": "issue 3", "PERF-5": "issue 5", "PERF-6": "issue 3",
    "USE-1": "later", "USE-2": "later", "USE-3": "later",
}  # fmt: skip

# --- made by `python -m tests.requirements` ---
DONE: dict[str, tuple[str, ...]] = {}
# --- end ---


def marks() -> Iterator[tuple[str, str]]:
    """Every (code, test) that a mark names, read from the source without running it."""
    for path in sorted(TESTS.rglob("test_*.py")):
        tree = ast.parse(path.read_text())
        everywhere = [code for node in tree.body if _assigns_pytestmark(node) for code in _codes(node)]
        yield from _in_body(tree, everywhere, path.relative_to(TESTS).as_posix())


def _in_body(node: ast.Module | ast.ClassDef, inherited: list[str], where: str) -> Iterator[tuple[str, str]]:
    for item in node.body:
        if isinstance(item, ast.ClassDef) and item.name.startswith("Test"):
            mine = [code for decorator in item.decorator_list for code in _codes(decorator)]
            yield from _in_body(item, [*inherited, *mine], f"{where}::{item.name}")
        elif isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and item.name.startswith("test_"):
            mine = [code for decorator in item.decorator_list for code in _codes(decorator)]
            yield from ((code, f"{where}::{item.name}") for code in dict.fromkeys([*inherited, *mine]))


def _assigns_pytestmark(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets)


def _codes(node: ast.AST) -> Iterator[str]:
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "proves":
            yield from (argument.value for argument in call.args if isinstance(argument, ast.Constant))


def proven() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for code, test in marks():
        found.setdefault(code, []).append(test)
    return {code: tuple(tests) for code, tests in sorted(found.items(), key=lambda item: _in_order(item[0]))}


def _in_order(code: str) -> tuple[str, int]:
    family, _, number = code.partition("-")
    return family, int(number)


def spec_codes(text: str) -> set[str]:
    return set(re.findall(r"^- `([A-Z]+-\d+)`", text, re.MULTILINE))


def main() -> None:
    path = Path(__file__)
    source = path.read_text()
    rows = ["DONE: dict[str, tuple[str, ...]] = {\n"]
    for code, tests in proven().items():
        if code not in NOT_YET:
            rows += [f'    "{code}": (\n', *(f'        "{test}",\n' for test in tests), "    ),\n"]
    head, _, rest = source.partition(BEGIN)
    tail = rest.partition(END)[2]
    path.write_text(head + BEGIN + "".join(rows) + "}\n" + END + tail)


if __name__ == "__main__":
    main()
