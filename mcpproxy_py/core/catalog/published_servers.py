"""Which published server a configured one is: by the package that its command fetches, or the host of its URL. Pure.

Not by the name that it has here, nor by what it says of itself: both could be anybody's. Only commands that fetch a
package by name from its registry count, and only as far as they are understood: with an option that is not known here,
another registry, or a file in place of a package, it is nobody we know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from mcpproxy_py.core.values import Operation


class CuratedClass(NamedTuple):
    tool_class: Operation
    reason: str
    source: str
    """The package with its version, or the repository with path and commit, that this was judged by."""


class PackageRunner(NamedTuple):
    registry: str
    flags: frozenset[str]
    """Options that change nothing about what is run."""
    valued: frozenset[str]
    """The same, with a value behind them."""
    package: frozenset[str]
    """Options whose value is the package, in place of the first argument."""


_NPX: Final = PackageRunner(
    "npm", frozenset(("-y", "--yes", "-q", "--quiet", "--silent", "--prefer-online", "--bun", "--")), frozenset(),
    frozenset(("-p", "--package")),
)  # fmt: skip
_UVX: Final = PackageRunner("pypi", frozenset(("-q", "--quiet", "--refresh", "--isolated", "--no-cache", "-n")),
                     frozenset(("-p", "--python")), frozenset(("--from",)))  # fmt: skip
_PIPX: Final = PackageRunner(
    "pypi", frozenset(("-q", "--quiet", "--no-cache")), frozenset(("--python",)), frozenset(("--spec",))
)
_DOCKER: Final = PackageRunner(
    "oci", frozenset(("-i", "-t", "-it", "-ti", "--rm", "--init", "--interactive", "--tty", "--read-only")),
    frozenset(("-e", "--env", "--env-file", "--name", "--network", "--net", "--pull", "--platform", "-l", "--label",
               "-m", "--memory", "--cpus", "-p", "--publish", "--add-host", "-u", "--user")), frozenset(),
)  # fmt: skip
RUNNERS: Final[Mapping[tuple[str, ...], PackageRunner]] = {
    ("npx",): _NPX, ("pnpx",): _NPX, ("bunx",): _NPX, ("npm", "exec"): _NPX, ("pnpm", "dlx"): _NPX,
    ("yarn", "dlx"): _NPX, ("bun", "x"): _NPX, ("uvx",): _UVX, ("uv", "tool", "run"): _UVX, ("pipx", "run"): _PIPX,
    ("docker", "run"): _DOCKER, ("podman", "run"): _DOCKER,
}  # fmt: skip
LIBRARIES: Final = ("pypi:mcp", "pypi:fastmcp")
"""What a server written for an older version of its library is started with, as in `uvx --with mcp~=1.0`. Any other
package beside it may put its own modules before those of the server."""
REDIRECTING: Final = ("npm_config_", "uv_", "pip_", "bun_", "yarn_", "node_options", "node_path", "pythonpath",
                      "pythonhome", "docker_", "ld_", "path")  # fmt: skip
"""Variables, by how they begin, that may make a runner fetch or start something else."""

_NPM: Final = re.compile(r"((?:@[a-z0-9._~-]+/)?[a-z0-9_~-][a-z0-9._~-]*)(?:@[A-Za-z0-9.^~*+-]+)?")
_PYPI: Final = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[A-Za-z0-9,._-]*\])?(?:(?:==|>=|<=|~=|<|>|@)[A-Za-z0-9.*+!]+)?"
)
_OCI: Final = re.compile(r"([a-z0-9][a-z0-9._/-]*)(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?")
_URL: Final = re.compile(r"https://([A-Za-z0-9.-]+)(?::443)?(?:[/?#].*)?", re.DOTALL)


def published_as(config: Mapping[str, Any]) -> str | None:
    """`npm:NAME`, `pypi:NAME`, `oci:IMAGE` or `https:HOST` of an entry of `mcpServers`."""
    url, command, args = config.get("url"), config.get("command"), config.get("args") or ()
    if isinstance(url, str):
        return f"https:{found[1].lower()}" if (found := _URL.fullmatch(url)) else None
    if not isinstance(command, str) or not all(isinstance(arg, str) for arg in args):
        return None
    if any(str(name).lower().startswith(REDIRECTING) for name in config.get("env") or ()):
        return None
    return _fetched((_program(command), *args), has_folder=config.get("cwd") is not None)


def _program(command: str) -> str:
    name = re.split(r"[/\\]", command)[-1].lower()
    return re.sub(r"\.(cmd|exe|bat)$", "", name)


def _fetched(line: Sequence[str], has_folder: bool) -> str | None:
    if line[0] == "cmd" and [word.lower() for word in line[1:2]] == ["/c"]:
        line = (_program(line[2]), *line[3:]) if len(line) > 2 else line
    for start, runner in RUNNERS.items():
        if tuple(line[: len(start)]) == start:
            if runner.registry == "npm" and has_folder:
                return None  # its node_modules would go before the registry
            package = _package(line[len(start) :], runner)
            return named(runner.registry, package) if package is not None else None
    return None


def _package(args: Sequence[str], runner: PackageRunner) -> str | None:
    chosen: str | None = None
    rest = iter(args)
    for arg in rest:
        option, equals, value = arg.partition("=")
        if not arg.startswith("-"):
            return chosen if chosen is not None else arg
        if option in runner.package and chosen is None:
            chosen = value if equals else next(rest, "")
        elif option in runner.valued:
            value = value if equals else next(rest, "")
        elif option == "--with" and runner is _UVX:
            if named("pypi", value if equals else next(rest, "")) not in LIBRARIES:
                return None
        elif arg not in runner.flags:
            return None
    return None


def named(registry: str, package: str) -> str | None:
    """The package without its version, as its registry compares names. A file or an address is no package."""
    pattern = {"npm": _NPM, "pypi": _PYPI, "oci": _OCI}[registry]
    found = pattern.fullmatch(package)
    if found is None:
        return None
    name = found[1]
    if registry == "pypi":
        name = re.sub(r"[-_.]+", "-", name).lower()
    elif registry == "oci":
        name = name.removeprefix("docker.io/")
    return f"{registry}:{name}"
