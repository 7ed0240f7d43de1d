"""How a server of a registry is connected: its entry in the configuration with questions, or why it cannot be. Pure.

What runs is made here of parts that are understood: one runner for each kind of package, the package by its name with
the version that the registry says, and the server's own arguments. Of what a registry wants to tell the *runner*, only
what cannot change what is fetched, or what it may reach, is passed on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from mcpproxy_py.core.catalog.model import ServerEntry
from mcpproxy_py.core.catalog.published_servers import REDIRECTING
from mcpproxy_py.core.oauth.addresses import is_never_asked, literal, nearness_of_host
from mcpproxy_py.providers.catalog.recipe import CatalogQuestion, CatalogRecipe, Place
from mcpproxy_py.providers.registry.entries import MOST_LISTED
from mcpproxy_py.providers.registry.inputs import Asked, checked_text, label_of, listed
from mcpproxy_py.providers.registry.places import VERSION, RegistryRefused

_NPM: Final = re.compile(r"(?:@[a-z0-9][a-z0-9._~-]{0,99}/)?[a-z0-9][a-z0-9._~-]{0,99}")
_PYPI: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_NUGET: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_])?")
_OCI: Final = re.compile(
    r"((?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::\d{2,5})?/)?[a-z0-9][a-z0-9._-]*(?:/[a-z0-9][a-z0-9._-]*)*)"
    r"(:[A-Za-z0-9_][A-Za-z0-9._-]{0,99})?(@sha256:[0-9a-f]{64})?"
)


@dataclass(frozen=True, slots=True)
class PackageCommand:
    """How a package of one kind is started. `flags` and `valued` are what a registry may tell it."""

    command: str
    before: tuple[str, ...]
    hints: frozenset[str]
    bases: frozenset[str]
    reference: Callable[[Mapping[str, Any]], str]
    after: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()


def _pinned(pattern: re.Pattern[str]) -> Callable[[Mapping[str, Any]], str]:
    def reference(package: Mapping[str, Any]) -> str:
        name, version = package.get("identifier"), package.get("version")
        if not isinstance(name, str) or not pattern.fullmatch(name):
            raise RegistryRefused("its package has no name that its registry could have")
        if not isinstance(version, str) or not VERSION.fullmatch(version) or version.lower() == "latest":
            raise RegistryRefused("its package has no exact version, so that anything could be started later")
        return f"{name}@{version}"

    return reference


def _image(package: Mapping[str, Any]) -> str:
    found = _OCI.fullmatch(str(package.get("identifier")))
    if found is None:
        raise RegistryRefused("its image has no name that a registry of images could have")
    version, base = package.get("version"), str(package.get("registryBaseUrl") or "").rstrip("/")
    tag = found[2] or (f":{version}" if isinstance(version, str) and VERSION.fullmatch(version) else None)
    if found[3] is None and tag in (None, ":latest"):
        raise RegistryRefused(
            "its image has no digest and no tag but `latest`, so that anything could be started later"
        )
    host = base.removeprefix("https://")
    prefix = f"{host}/" if host and host != "docker.io" and not found[1].startswith(f"{host}/") else ""
    return f"{prefix}{found[1]}{tag or ''}{found[3] or ''}"


RUNNERS: Final[Mapping[str, PackageCommand]] = {
    "npm": PackageCommand("npx", ("-y",), frozenset(("npx", "node", "npm")), frozenset(("https://registry.npmjs.org",)),
                  _pinned(_NPM), flags=frozenset(("-y", "--yes", "-q", "--quiet"))),
    "pypi": PackageCommand("uvx", (), frozenset(("uvx", "uv", "python")), frozenset(("https://pypi.org",)),
                   _pinned(_PYPI), flags=frozenset(("-q", "--quiet")), valued=frozenset(("-p", "--python"))),
    "nuget": PackageCommand("dnx", (), frozenset(("dnx", "dotnet")),
                    frozenset(("https://api.nuget.org", "https://api.nuget.org/v3/index.json")), _pinned(_NUGET),
                    after=("--yes", "--"), flags=frozenset(("--yes", "-y"))),
    "oci": PackageCommand("docker", ("run", "-i", "--rm"), frozenset(("docker",)),
                  frozenset(("https://docker.io", "https://ghcr.io", "https://quay.io", "https://mcr.microsoft.com",
                             "https://gcr.io")), _image,
                  flags=frozenset(("run", "-i", "--interactive", "--rm", "--init", "--read-only")),
                  valued=frozenset(("-e", "--env", "-v", "--volume", "--mount"))),
}  # fmt: skip
# Programs that run code or commands from their arguments: such a package says nothing of what would run.
_INTERPRETERS: Final = re.compile(
    r"(?:[cib]|pt|jy|micro)?python[wt\d-]*|(?:pypy|graalpy|hy|lua|perl|ruby|php|node)[\d-]*|(?:ba|z|da|c|tc|k|fi|xon)?sh"
    r"|node-?js|nodejs-(?:bin|wheel|wheel-binaries)|deno|bun|bunx|tsx|ts-node|ts-node-dev|esno|jiti|vite-node|babel-node|zx"
    r"|shelljs|shx|npm|npx|pnpm|pnpx|yarn|corepack|dotenv-cli|env-cmd|cross-env|concurrently|npm-run-all|nodemon|pm2"
    r"|coffee-?script|quickjs|luajit|uv|uvx|pip|pipx|pipenv|poetry|pdm|hatch|nox|tox|invoke|jupyter|python-dotenv|honcho"
    r"|powershell|pwsh|dotnet-script|dotnet-repl|csharprepl|busybox|alpine|debian|ubuntu|fedora|centos|rockylinux|almalinux"
    r"|archlinux|amazonlinux|docker|groovy|jshell|openjdk|eclipse-temurin|golang|rust|gcc|r-base|julia|erlang|elixir"
)
_REFUSED_KINDS: Final = {
    "mcpb": "it is a bundle (mcpb) to be downloaded and unpacked, which is not done here",
    "cargo": "it is a crate, which would have to be compiled first",
}
_BY_A_PERSON: Final = re.compile(
    r"\{[A-Za-z0-9_.-]+\}:/[A-Za-z0-9._/-]*(:ro|:rw)?"
    r"|type=bind,(src|source)=\{[A-Za-z0-9_.-]+\},(dst|destination|target)=(/[A-Za-z0-9._/-]*|\{[A-Za-z0-9_.-]+\})"
    r"(,readonly|,ro)?"
)
"""What of this machine a container sees: a place that a person names, never one that a registry does."""
_PYTHON: Final = re.compile(r"[0-9]{1,2}(\.[0-9]{1,3}){0,2}")
_ENV: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_STEERING: Final = re.compile(
    r"(" + "|".join(map(re.escape, (*(each for each in REDIRECTING if each != "path"), "dyld_", "dotnet_", "nuget_",
                                    "git_", "ssl_cert", "node_extra", "node_tls", "npm_", "java_tool_options")))
    + r").*|path|home|shell|env|bash_env|ifs|[a-z]+_proxy|pythonstartup|perl5?(opt|lib)|ruby(opt|lib)",
    re.IGNORECASE | re.DOTALL,
)  # fmt: skip
"""Variables that make a program load, fetch or trust something else; a registry sets none of them."""
_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_FRAMING: Final = re.compile(
    r"host|content-.*|transfer-encoding|connection|te|upgrade|trailer|expect|mcp-.*|accept.*|proxy-.*|forwarded|x-forwarded-.*",
    re.IGNORECASE,
)
_LOCAL_NAMES: Final = (".local", ".internal", ".lan", ".home", ".corp", ".intranet", ".home.arpa")


def registry_recipe(entry: ServerEntry, transport: str | None = None) -> CatalogRecipe:
    """Remotes before packages, as they start nothing on this machine. Of an entry whose registry is on this machine,
    addresses may be too. Raises `RegistryRefused` with why nothing of it can be used."""
    if entry.lifecycle == "deleted":
        raise RegistryRefused("its registry has deleted it")
    reasons: list[str] = []
    remotes = [] if transport == "stdio" else entry.wire.get("remotes", ())
    packages = [] if transport not in (None, "stdio") else entry.wire.get("packages", ())
    for make, each in [*((_of_remote, each) for each in remotes), *((_of_package, each) for each in packages)]:
        try:
            found = make(each, entry.local)
        except RegistryRefused as why:
            reasons.append(str(why))
            continue
        return CatalogRecipe(found.config, found.questions, (*entry.warnings, *found.notes))
    raise RegistryRefused("; ".join(dict.fromkeys(reasons)) or "it lists no package and no address")


def _of_remote(remote: Mapping[str, Any], local: bool) -> CatalogRecipe:
    kind = remote.get("type")
    if kind not in ("streamable-http", "sse"):
        raise RegistryRefused("its address is of no transport that is known")
    asked = Asked()
    url = asked.text("url", {**remote, "value": remote.get("url")}, "its address", Place("url", None, 0))
    if url is None:
        raise RegistryRefused("it has no address")
    _check_url(url, local)
    config: dict[str, Any] = {"url": url, **({"transport": "sse"} if kind == "sse" else {})}
    headers: dict[str, str] = {}
    for wire in listed(remote, "headers", MOST_LISTED):
        name = wire.get("name")
        if not isinstance(name, str) or not _HEADER.fullmatch(name) or _FRAMING.fullmatch(name):
            raise RegistryRefused("one of its headers is not a server's to set")
        text = asked.text("header", wire, f"its header {name}", Place("headers", name, 0))
        if text is not None:
            headers[name] = text
        else:
            asked.ask("header", name, wire, None)
    return CatalogRecipe({**config, **({"headers": headers} if headers else {})}, tuple(asked.questions.values()))


def _check_url(url: str, local: bool) -> None:
    try:
        parts = urlsplit(url)
        host, fits = (parts.hostname or "").rstrip("."), parts.port is None or parts.port > 0
    except ValueError:
        raise RegistryRefused("its address is no plain address") from None
    if not fits or not host or "@" in parts.netloc or parts.fragment or re.search(r"[^!-~]|[\\\"]", url):
        raise RegistryRefused("its address is no plain address")
    if "{" in host:
        return  # a person says where it is
    near, address = nearness_of_host(host), literal(host)
    if address is not None and is_never_asked(address):
        raise RegistryRefused("its address is one that is never asked")
    if local and (near in ("loopback", "private") or parts.scheme == "https"):
        return
    if parts.scheme != "https":
        raise RegistryRefused("its address is not https")
    # Numbers in odd spellings (127.1, 0x7f000001) are addresses to some resolvers.
    odd = re.fullmatch(r"[0-9.]+|0x.*|.*\.(?:\d+|0x[0-9a-f]*)", host) is not None and near != "public"
    bare = "." not in host and ":" not in host
    if near in ("loopback", "private") or odd or bare or host.lower().endswith(_LOCAL_NAMES):
        raise RegistryRefused("its address is in a private network")


def _of_package(package: Mapping[str, Any], local: bool) -> CatalogRecipe:
    kind = package.get("registryType")
    runner = RUNNERS.get(kind) if isinstance(kind, str) else None
    if runner is None:
        raise RegistryRefused(_REFUSED_KINDS.get(str(kind), "its package is of a kind that is not known here"))
    transport = package.get("transport")
    if (transport.get("type") if isinstance(transport, Mapping) else transport) not in ("stdio", None):
        raise RegistryRefused("its package listens on an address of its own: start it, and add that address")
    base = package.get("registryBaseUrl")
    if base not in (None, "") and str(base).rstrip("/") not in runner.bases:
        raise RegistryRefused("its package is fetched from a registry that is not the usual one of its kind")
    if package.get("runtimeHint") not in (None, "", *runner.hints):
        raise RegistryRefused(f"it wants to be started by something else than {runner.command}")
    if package.get("fileSha256") and kind != "oci":
        raise RegistryRefused(f"its package has a digest, which {runner.command} does not check")
    reference = runner.reference(package)
    name = re.sub(r"[@:].*", "", str(package.get("identifier")).lower().rpartition("/")[2])
    if _INTERPRETERS.fullmatch(re.sub(r"[-_.]+", "-", name)):
        raise RegistryRefused(f"its package {name} runs whatever code its arguments hold")
    asked, args, env = Asked(), [*runner.before], dict[str, str]()
    _told(package, runner, asked, args)
    for wire in listed(package, "environmentVariables", 2 * MOST_LISTED):
        name = wire.get("name")
        if not isinstance(name, str) or not _ENV.fullmatch(name):
            raise RegistryRefused("one of its variables has no name that a variable could have")
        if _STEERING.fullmatch(name) and any(
            wire.get(key) not in (None, "") for key in ("value", "default", "choices")
        ):
            raise RegistryRefused(f"it sets {name}, which steers other programs")
        text = asked.text("env", wire, f"its variable {name}", Place("env", name, 0))
        if text is not None:
            env[name] = text
        else:
            asked.ask("env", name, wire, None)
        if kind == "oci":  # a container sees only what is handed through
            args += ["-e", name]
    args += [reference, *runner.after]
    for number, wire in enumerate(listed(package, "packageArguments", 2 * MOST_LISTED), 1):
        _argument(wire, number, asked, args)
    if args and args[-1] == "--":
        args.pop()
    notes = (
        ("Its tag may be moved to another image; a digest could not.",)
        if kind == "oci" and "@" not in reference
        else ()
    )
    config = {"command": runner.command, "args": args, **({"env": env} if env else {})}
    return CatalogRecipe(config, tuple(asked.questions.values()), notes)


def _told(package: Mapping[str, Any], runner: PackageCommand, asked: Asked, args: list[str]) -> None:
    """What the runner itself is told: of a short list only."""
    waiting: str | None = None
    for wire in listed(package, "runtimeArguments", MOST_LISTED):
        name = wire.get("name") if wire.get("type") == "named" else waiting or wire.get("value")
        word = str(name)
        if waiting is None and word in runner.flags:
            if word not in args and word not in runner.after and word not in ("--yes", "--interactive"):
                args.append(word)
            continue
        if word not in runner.valued:
            raise RegistryRefused(f"it wants to tell {runner.command} `{_short(word)}`, which is not passed on")
        if waiting is None and wire.get("type") != "named":
            waiting = word
            continue
        waiting = None
        text = asked.text("arg", wire, f"what it tells {runner.command}", Place("args", len(args) + 1, 2))
        if text is None or not _may_be_told(word, text, wire):
            raise RegistryRefused(
                f"it wants to tell {runner.command} `{word} {_short(text or '')}`, which is not passed on"
            )
        args += [word, text]
    if waiting is not None:
        raise RegistryRefused(f"it wants to tell {runner.command} `{waiting}` without a value")


def _may_be_told(word: str, text: str, wire: Mapping[str, Any]) -> bool:
    if word in ("-p", "--python"):
        return _PYTHON.fullmatch(text) is not None
    if word in ("-e", "--env"):
        name = text.partition("=")[0]
        return _ENV.fullmatch(name) is not None and not _STEERING.fullmatch(name)
    first = re.search(r"\{([A-Za-z0-9_.-]+)\}", text)
    variables = wire.get("variables") or {}
    free = first is not None and first[1] in variables and variables[first[1]].get("default") in (None, "")
    return free and _BY_A_PERSON.fullmatch(text) is not None


def _argument(wire: Mapping[str, Any], number: int, asked: Asked, args: list[str]) -> None:
    """One of the server's own: its text, or a place that an answer fills."""
    named = wire.get("type") == "named"
    if wire.get("type") not in ("positional", "named"):
        raise RegistryRefused("one of its arguments is neither positional nor named")
    flag = checked_text(wire.get("name"), "the name of an argument") if named else ""
    if named and not re.fullmatch(r"-{0,2}[A-Za-z0-9][A-Za-z0-9._:-]{0,99}", flag):
        raise RegistryRefused("one of its arguments has no name that an option could have")
    place = Place("args", len(args) + named, 1 + named)
    what = f"its argument {flag or number}"
    text = asked.text("arg", wire, what, place)
    bare = all(
        wire.get(key) in (None, "", False)
        for key in ("default", "choices", "format", "placeholder", "isRequired", "valueHint")
    )
    if text is None and named and bare:
        args.append(flag)
        return
    if text is None:
        name = label_of(wire, f"argument_{number}")
        if name in asked.questions:
            name = f"{name}_{number}"
        asked.ask("arg", name, wire, place)
        text = f"{{{name}}}"
    args += [flag, text] if named else [text]


def _short(text: str) -> str:
    return "".join(char if char.isprintable() and char != "`" else "?" for char in text[:80])


def questions_missing(recipe: CatalogRecipe) -> list[CatalogQuestion]:
    """What a person has to answer; the rest has a default, or may be left out."""
    return [each for each in recipe.questions if each.required and each.default is None]
