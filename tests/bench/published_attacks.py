"""Tools that other people published to show how descriptions poison: what `description_scan --theirs` reads.

`python -m tests.bench.published_attacks OUT.jsonl [--mirrors DIRECTORY]` takes them out of the repositories below, as
they were at the commits below, and writes them with our labels. The repositories are cloned, or lie in `DIRECTORY` as
`OWNER+NAME/repo`. Their texts are theirs, so only places and labels stand here. Labels were given by reading, before
the scan had seen the texts: `poisoned` is what is named in `POISONED`, all other tools are `harmless`, whatever their
code does.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

REPOSITORIES: Final = {
    "harishsg993010/damn-vulnerable-MCP-server": "c7cb1e95ec2596bf0e989b70e7b954f364da03a2",
    "johannhartmann/mcp-injection-experiments": "4a8a92d43a388b8d2c6e73d65d2fe28df97c444c",
    "invariantlabs-ai/mcp-scan": "9d6f6f911182ca9e401261a3d93d7b5a80cafb8b",
    "charanpanchagnula/mcp-scanner-benchmark": "ed828772dc7849d95d1c3bd760d86de2c8f2b118",
    "harryc295/tool-poisoning-bench": "9a5c49669f2e50da8e7cfc571ff35dc77cccb034",
}
POISONED: Final = frozenset((
    "challenges/easy/challenge2/server.py:get_company_data",
    "challenges/easy/challenge2/server.py:search_company_database",
    "challenges/hard/challenge10/server.py:get_user_profile", "direct-poisoning.py:add", "shadowing.py:add",
    "challenges/hard/challenge10/server.py:malicious_check_system_status",
    "challenges/medium/challenge5/server.py:enhanced_calculate", "demoserver/server.py:multiply:<",
    "challenges/medium/challenge5/server.py:calculate:<",
    "backend/vulnerable_examples/server.py:execute_unsafe_command",
    "backend/vulnerable_examples/server.py:read_any_file", "scenarios.py:calculator", "scenarios.py:lookup_account",
))  # fmt: skip
"""`path:function`; `:<` of two with one name is the one with a tag in its text."""
PRESENTERS: Final = frozenset(("run_demo",))
"""Not tools of a server, but of the demonstration around it."""


def _git(mirror: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(mirror), *words], check=True, capture_output=True, text=True).stdout


def _tools(source: str) -> Iterator[tuple[str, str, list[str]]]:
    """Name, description and parameters of each function that is decorated as a tool, and of overridden descriptions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = [each for each in node.decorator_list if "tool" in ast.unparse(each)]
            if decorators:
                given = [
                    key.value
                    for each in decorators
                    for key in getattr(each, "keywords", [])
                    if key.arg == "description"
                ]
                text = given[0].value if given and isinstance(given[0], ast.Constant) else ast.get_docstring(node)
                yield node.name, str(text or ""), [argument.arg for argument in node.args.args]
        elif isinstance(node, ast.keyword) and node.arg == "description_override" and isinstance(node.value, ast.Dict):
            for name, text in zip(node.value.keys, node.value.values, strict=True):
                if name is not None:
                    yield ast.literal_eval(name), ast.literal_eval(text), []


def published(mirrors: Path) -> Iterator[dict[str, Any]]:
    for repository, commit in REPOSITORIES.items():
        mirror = mirrors / repository.replace("/", "+") / "repo"
        if not mirror.exists():
            _git(Path.cwd(), "clone", "-q", "--bare", f"https://github.com/{repository}", str(mirror))
        for path in _git(mirror, "ls-tree", "-r", "--name-only", commit).splitlines():
            if not path.endswith(".py") or "test_" in path or "_sse" in path:
                continue
            for name, text, parameters in _tools(_git(mirror, "show", f"{commit}:{path}")):
                if not text or name in PRESENTERS:
                    continue
                place = f"{path}:{name}"
                bad = place in POISONED or (f"{place}:<" in POISONED and "<" in text)
                schema = {"type": "object", "properties": {each: {"type": "string"} for each in parameters}}
                tool = {"name": name, "description": text, "inputSchema": schema}
                yield {"id": f"{repository} {place}", "label": "poisoned" if bad else "harmless", "tool": tool}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("--mirrors", type=Path, default=Path(tempfile.gettempdir()) / "mcpproxy-published-attacks")
    given = options.parse_args()
    rows = list(published(given.mirrors))
    given.out.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(f"{len(rows)} tools, {sum(row['label'] == 'poisoned' for row in rows)} of them poisoned")


if __name__ == "__main__":
    main()
