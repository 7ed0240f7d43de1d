"""The tool lists that published servers give, had by running them: what the curated classes were judged by, and what
`tests.bench.class_proposals` measures on. Needs npm and PyPI, so no test runs it.

`python -m tests.bench.tool_lists` fetches every server of the table that is not there yet,
`python -m tests.bench.tool_lists npm:@playwright/mcp pypi:mcp-server-git` these alone, again,
`python -m tests.bench.tool_lists --curated` says where the curated classes are no longer those of the lists at hand.

Each package is installed into a directory of its own under /tmp, started over stdio with made-up keys, asked for its
tools and ended. What it said goes to `LISTS`, one file for each server, outside of the repository: names, descriptions
and schemas are other people's texts.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from mcpproxy_py.core.policy.tool_class import classify
from mcpproxy_py.providers.catalog.data_files import SHIPPED
from mcpproxy_py.providers.catalog.tool_classes import KIND

ROOT: Final = Path(os.environ.get("MCPPROXY_TOOL_LISTS", Path(tempfile.gettempdir()) / "mcpproxy-tool-lists"))
LISTS: Final = ROOT / "lists"
AT_ONCE: Final = 2
INSTALL_SECONDS: Final = 420
ANSWER_SECONDS: Final = 60
MAX_PAGES: Final = 50

KEY: Final = "0123456789abcdef0123456789abcdef01234567"
URL: Final = "http://127.0.0.1:9"
POSTGRES: Final = "postgresql://user:word@127.0.0.1:9/db"


class Published(NamedTuple):
    """A package and what it has to be told to start at all."""

    package: str
    """`npm:NAME` or `pypi:NAME`."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = MappingProxyType({})
    install: tuple[str, ...] = ()
    """What to install in place of the newest version: what it was made to run with."""
    program: str = ""
    """Where the package's command is not the one that can be guessed."""


def _keys(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, KEY)


SERVERS: Final[tuple[Published, ...]] = (
    Published("npm:@modelcontextprotocol/server-filesystem", ("/tmp",)),
    Published("npm:@modelcontextprotocol/server-memory"),
    Published("npm:@modelcontextprotocol/server-sequential-thinking"),
    Published("npm:@modelcontextprotocol/server-everything"),
    Published("npm:@modelcontextprotocol/server-puppeteer"),
    Published("npm:@modelcontextprotocol/server-brave-search", env=_keys("BRAVE_API_KEY")),
    Published("npm:@modelcontextprotocol/server-google-maps", env=_keys("GOOGLE_MAPS_API_KEY")),
    Published("npm:@modelcontextprotocol/server-slack", env=_keys("SLACK_BOT_TOKEN", "SLACK_TEAM_ID")),
    Published("npm:@modelcontextprotocol/server-github", env=_keys("GITHUB_PERSONAL_ACCESS_TOKEN")),
    Published("npm:@modelcontextprotocol/server-gitlab", env=_keys("GITLAB_PERSONAL_ACCESS_TOKEN")),
    Published("npm:@modelcontextprotocol/server-postgres", (POSTGRES,)),
    Published("npm:@modelcontextprotocol/server-redis", ("redis://127.0.0.1:9",)),
    Published("npm:@playwright/mcp"),
    Published("npm:chrome-devtools-mcp"),
    Published("npm:@upstash/context7-mcp"),
    Published("npm:@notionhq/notion-mcp-server", env={"NOTION_TOKEN": "ntn_" + KEY}),
    Published("npm:@stripe/mcp", (f"--api-key=rk_test_{KEY}", "--tools=all"),
              install=("@stripe/mcp@0.2.5",)),
    Published("npm:@supabase/mcp-server-supabase", ("--access-token", f"sbp_{KEY}")),
    Published("npm:firecrawl-mcp", env={"FIRECRAWL_API_KEY": "fc-" + KEY}),
    Published("npm:exa-mcp-server", env=_keys("EXA_API_KEY")),
    Published("npm:tavily-mcp", env=_keys("TAVILY_API_KEY")),
    Published("npm:figma-developer-mcp", (f"--figma-api-key={KEY}", "--stdio")),
    Published("npm:@wonderwhy-er/desktop-commander"),
    Published("npm:mongodb-mcp-server", env={"MDB_MCP_CONNECTION_STRING": "mongodb://127.0.0.1:9/db",
                                             "MDB_MCP_TELEMETRY": "disabled"}),
    Published("npm:mcp-server-kubernetes"),
    Published("npm:kubernetes-mcp-server"),
    Published("npm:@azure/mcp", ("server", "start")),
    Published("npm:@azure-devops/mcp", ("contoso",)),
    Published("npm:@cloudflare/mcp-server-cloudflare", ("run", KEY), _keys("CLOUDFLARE_API_TOKEN")),
    Published("npm:@elastic/mcp-server-elasticsearch", env={"ES_URL": URL, "ES_API_KEY": KEY}),
    Published("npm:@browserbasehq/mcp-server-browserbase",
              env=_keys("BROWSERBASE_API_KEY", "BROWSERBASE_PROJECT_ID", "GEMINI_API_KEY")),
    Published("npm:@hubspot/mcp-server", env=_keys("PRIVATE_APP_ACCESS_TOKEN")),
    Published("npm:@sentry/mcp-server", ("--access-token", KEY), _keys("OPENAI_API_KEY")),
    Published("npm:@zereight/mcp-gitlab", env=_keys("GITLAB_PERSONAL_ACCESS_TOKEN")),
    Published("npm:@brave/brave-search-mcp-server", ("--transport", "stdio"), _keys("BRAVE_API_KEY")),
    Published("npm:@perplexity-ai/mcp-server", env=_keys("PERPLEXITY_API_KEY")),
    Published("npm:@apify/actors-mcp-server", env=_keys("APIFY_TOKEN")),
    Published("npm:@brightdata/mcp", env={"API_TOKEN": KEY, "PRO_MODE": "true"}, program="mcp"),
    Published("npm:airtable-mcp-server", env={"AIRTABLE_API_KEY": "pat" + KEY}),
    Published("npm:@heroku/mcp-server", env=_keys("HEROKU_API_KEY")),
    Published("npm:@digitalocean/mcp", env=_keys("DIGITALOCEAN_API_TOKEN")),
    Published("npm:@circleci/mcp-server-circleci", env=_keys("CIRCLECI_TOKEN")),
    Published("npm:slack-mcp-server", ("--transport", "stdio"), {"SLACK_MCP_XOXP_TOKEN": "demo"}),
    Published("npm:@doist/todoist-mcp", env=_keys("TODOIST_API_KEY")),
    Published("npm:@mondaydotcomorg/monday-api-mcp", ("-t", KEY)),
    Published("npm:@shopify/dev-mcp"),
    Published("npm:webflow-mcp-server", env=_keys("WEBFLOW_TOKEN")),
    Published("npm:n8n-mcp", env={"MCP_MODE": "stdio", "N8N_API_URL": URL, "N8N_API_KEY": KEY}),
    Published("npm:@mobilenext/mobile-mcp"),
    Published("npm:@softeria/ms-365-mcp-server", ("--org-mode",)),
    Published("npm:@google-cloud/cloud-run-mcp"),
    Published("npm:@postman/postman-mcp-server", ("--full",), {"POSTMAN_API_KEY": "PMAK-" + KEY}),
    Published("npm:@mapbox/mcp-server", env={"MAPBOX_ACCESS_TOKEN": "pk.eyJ1IjoidSJ9.x"}),
    Published("npm:@bitwarden/mcp-server", env=_keys("BW_SESSION")),
    Published("npm:@pinecone-database/mcp", env=_keys("PINECONE_API_KEY")),
    Published("npm:@benborla29/mcp-server-mysql", env={"MYSQL_HOST": "127.0.0.1", "MYSQL_USER": "u"}),
    Published("npm:@netlify/mcp"),
    Published("npm:square-mcp-server", ("start",), _keys("ACCESS_TOKEN")),
    Published("npm:resend-mcp", env={"RESEND_API_KEY": "re_" + KEY}),
    Published("npm:@neondatabase/mcp-server-neon", ("start", KEY)),
    Published("npm:@cloudinary/asset-management-mcp", ("start",)),
    Published("npm:@launchdarkly/mcp-server", ("start", "--api-key", KEY)),
    Published("npm:firebase-tools", ("mcp",), program="firebase"),
    Published("npm:@paypal/mcp", ("--tools=all", f"--access-token={KEY}")),
    Published("npm:@xeroapi/xero-mcp-server", env=_keys("XERO_CLIENT_ID", "XERO_CLIENT_SECRET")),
    Published("npm:hyperbrowser-mcp", env=_keys("HYPERBROWSER_API_KEY")),
    Published("npm:next-devtools-mcp"),
    Published("npm:shadcn", ("mcp",)),
    Published("npm:@upstash/mcp-server", ("--email", "a@example.com", "--api-key", KEY)),
    Published("npm:@confluentinc/mcp-confluent"),
    Published("npm:@auth0/auth0-mcp-server", ("run",)),
    Published("npm:xcodebuildmcp", ("mcp",)),
    Published("pypi:mcp-server-git"),
    Published("pypi:mcp-server-fetch"),
    Published("pypi:mcp-server-time"),
    Published("pypi:mcp-server-sqlite", ("--db-path", "/tmp/mcpproxy-tool-lists.db"),
              install=("mcp-server-sqlite", "mcp<2")),
    Published("pypi:mcp-atlassian", env={"JIRA_URL": URL, "JIRA_PERSONAL_TOKEN": KEY, "CONFLUENCE_URL": URL,
                                         "CONFLUENCE_PERSONAL_TOKEN": KEY}),
    Published("pypi:mcp-server-qdrant", env={"QDRANT_URL": URL, "COLLECTION_NAME": "things"},
              install=("mcp-server-qdrant", "mcp<2")),
    Published("pypi:redis-mcp-server", ("--url", "redis://127.0.0.1:9/0")),
    Published("pypi:postgres-mcp", (POSTGRES, "--access-mode=unrestricted")),
    Published("pypi:awslabs.aws-documentation-mcp-server"),
    Published("pypi:awslabs.aws-api-mcp-server", env={"AWS_REGION": "us-east-1", **_keys("AWS_ACCESS_KEY_ID",
              "AWS_SECRET_ACCESS_KEY")}),
    Published("pypi:awslabs.cloudwatch-mcp-server", env={"AWS_REGION": "us-east-1"}),
    Published("pypi:awslabs.dynamodb-mcp-server", env={"AWS_REGION": "us-east-1"}),
    Published("pypi:awslabs.aws-pricing-mcp-server", env={"AWS_REGION": "us-east-1"}),
    Published("pypi:awslabs.eks-mcp-server", ("--allow-write", "--allow-sensitive-data-access"),
              {"AWS_REGION": "us-east-1"}),
    Published("pypi:awslabs.cdk-mcp-server"),
    Published("pypi:awslabs.terraform-mcp-server"),
    Published("pypi:awslabs.ecs-mcp-server", env={"AWS_REGION": "us-east-1"}),
    Published("pypi:mcp-clickhouse", env={"CLICKHOUSE_HOST": "127.0.0.1", "CLICKHOUSE_USER": "u",
                                          "CLICKHOUSE_PASSWORD": "p"}),
    Published("pypi:mcp-server-motherduck", ("--db-path", ":memory:", "--read-write")),
    Published("pypi:mcp-neo4j-cypher", env={"NEO4J_URI": "bolt://127.0.0.1:9", "NEO4J_USERNAME": "u",
                                            "NEO4J_PASSWORD": "p"}),
    Published("pypi:pagerduty-mcp", ("--enable-write-tools",), _keys("PAGERDUTY_USER_API_KEY")),
    Published("pypi:workspace-mcp", env=_keys("GOOGLE_OAUTH_CLIENT_ID", "GOOGLE_OAUTH_CLIENT_SECRET")),
    Published("pypi:elevenlabs-mcp", env=_keys("ELEVENLABS_API_KEY")),
    Published("pypi:mcp-server-docker", install=("mcp-server-docker", "mcp<2")),
    Published("pypi:duckduckgo-mcp-server"),
    Published("pypi:mcp-obsidian", env=_keys("OBSIDIAN_API_KEY")),
    Published("pypi:mcp-grafana", env={"GRAFANA_URL": URL, "GRAFANA_SERVICE_ACCOUNT_TOKEN": KEY}),
    Published("pypi:jupyter-mcp-server"),
    Published("pypi:serena-agent", ("start-mcp-server", "--enable-web-dashboard", "false"), program="serena"),
    Published("pypi:excel-mcp-server", ("stdio",)),
    Published("pypi:arxiv-mcp-server"),
    Published("pypi:wikipedia-mcp"),
    Published("pypi:dbt-mcp", env={"DBT_HOST": "cloud.getdbt.com", "DBT_TOKEN": KEY, "DBT_PROD_ENV_ID": "1",
                                   "DISABLE_DBT_CLI": "true"}),
    Published("pypi:markitdown-mcp"),
    Published("pypi:kagimcp", env=_keys("KAGI_API_KEY")),
    Published("pypi:mcp-for-blender"),
    Published("pypi:langsmith-mcp-server", env=_keys("LANGSMITH_API_KEY")),
    Published("pypi:ha-mcp", env={"HOMEASSISTANT_URL": URL, "HOMEASSISTANT_TOKEN": KEY}),
    Published("pypi:chroma-mcp", ("--client-type", "ephemeral"), install=("chroma-mcp", "mcp<2", "fastmcp<3")),
)  # fmt: skip


def list_file(package: str) -> Path:
    return LISTS / (re.sub(r"[^A-Za-z0-9._-]+", "_", package) + ".json")


def fetch(server: Published) -> str:
    """One line on what became of it."""
    kind, _, name = server.package.partition(":")
    wanted = server.install or (name,)
    home = ROOT / kind / re.sub(r"[^A-Za-z0-9._-]+", "_", name)
    try:
        version, command = (_npm if kind == "npm" else _pypi)(home, name, wanted, server.program)
        told, tools = _asked([*command, *server.args], {**os.environ, **server.env, "HOME": str(home)}, home)
        about, instructions = told.get("serverInfo"), told.get("instructions")
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        output = getattr(error, "stderr", None) or b""
        tail = (output if isinstance(output, bytes) else output.encode())[-300:].decode(errors="replace")
        return f"{server.package}: failed: {str(error)[-400:]} {tail}"
    found = {
        "package": server.package,
        "version": version,
        "server": about,
        "instructions": instructions,
        "tools": tools,
    }
    list_file(server.package).write_text(json.dumps(found, indent=1, ensure_ascii=False), encoding="utf-8")
    return f"{server.package}@{version}: {len(tools)} tools"


def _run(command: list[str], **options: Any) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_SECONDS, **options)


def _npm(home: Path, name: str, wanted: tuple[str, ...], program: str) -> tuple[str, list[str]]:
    home.mkdir(parents=True, exist_ok=True)
    if not (home / "node_modules" / name).is_dir():
        _run(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(home), *wanted],
             env={**os.environ, "PUPPETEER_SKIP_DOWNLOAD": "1", "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1"})  # fmt: skip
    about = json.loads((home / "node_modules" / name / "package.json").read_bytes())
    commands = about.get("bin", {})
    if isinstance(commands, str):
        commands = {name.rpartition("/")[2]: commands}
    chosen = program or (name.rpartition("/")[2] if name.rpartition("/")[2] in commands else next(iter(commands)))
    return about["version"], [str(home / "node_modules" / ".bin" / chosen.rpartition("/")[2])]


def _pypi(home: Path, name: str, wanted: tuple[str, ...], program: str) -> tuple[str, list[str]]:
    python = home / "bin" / "python"
    if not python.exists() or not (home / "bin" / (program or name)).exists():
        _run([sys.executable, "-m", "venv", str(home)])
        _run([_uv(), "pip", "install", "-q", "--python", str(python), *wanted])
    code = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))"
    version = subprocess.run([python, "-c", code, name], check=True, capture_output=True, text=True).stdout.strip()
    return version, [str(home / "bin" / (program or name))]


def _uv() -> str:
    """Installs a tenth as slow as pip; in an environment of its own."""
    home = ROOT / "uv"
    if not (home / "bin" / "uv").exists():
        _run([sys.executable, "-m", "venv", str(home)])
        _run([str(home / "bin" / "pip"), "install", "-q", "uv"])
    return str(home / "bin" / "uv")


def _asked(command: list[str], env: dict[str, str], cwd: Path) -> tuple[Any, list[Any]]:
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=cwd,
        start_new_session=True,
    ) as server:  # fmt: skip
        try:
            return _handshake(server)
        except ValueError as error:
            _end(server)
            said = (server.stderr.read() if server.stderr else b"")[-300:].decode(errors="replace")
            raise ValueError(f"{error}: {said}") from None
        finally:
            _end(server)


def _end(server: subprocess.Popen[bytes]) -> None:
    """With all that it started, which would keep its pipes open."""
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)


def _handshake(server: subprocess.Popen[bytes]) -> tuple[Any, list[Any]]:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "tool-lists", "version": "1"}}
    told = _request(server, 1, "initialize", hello)
    _write(server, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    tools: list[Any] = []
    cursor: str | None = None
    for page in range(MAX_PAGES):
        answer = _request(server, 2 + page, "tools/list", {"cursor": cursor} if cursor else {})
        tools += answer["tools"]
        cursor = answer.get("nextCursor")
        if not cursor:
            break
    return told, tools


def _write(server: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert server.stdin is not None
    try:
        server.stdin.write(json.dumps(message).encode() + b"\n")
        server.stdin.flush()
    except BrokenPipeError:
        raise ValueError("it ended") from None


def _request(server: subprocess.Popen[bytes], number: int, method: str, params: dict[str, Any]) -> Any:
    _write(server, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    assert server.stdout is not None
    until = time.monotonic() + ANSWER_SECONDS
    buffer = b""
    while time.monotonic() < until:
        ready, _, _ = select.select([server.stdout], [], [], 1)
        if not ready:
            continue
        chunk = os.read(server.stdout.fileno(), 1 << 20)
        if not chunk:
            raise ValueError(f"it ended instead of answering {method}")
        buffer += chunk
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            if (answer := _answer(line, number)) is not None:
                return answer
    raise ValueError(f"no answer to {method} within {ANSWER_SECONDS} s")


def _answer(line: bytes, number: int) -> Any:
    try:
        message = json.loads(line)
    except ValueError:
        return None
    if not isinstance(message, dict) or message.get("id") != number or "method" in message:
        return None
    if "result" not in message:
        raise ValueError(f"it refused: {str(message.get('error'))[:200]}")
    return message["result"]


def curated() -> Iterator[str]:
    """What a person has to look at again: tools that came or went, and hints that changed."""
    for server in json.loads((SHIPPED / f"{KIND}.json").read_bytes())["servers"]:
        package, _, version = server["source"].rpartition("@")
        if server["source"].startswith("github:") or not list_file(package).exists():
            yield f"{server['title']}: no list at hand; judged by {server['source']}"
            continue
        found = json.loads(list_file(package).read_bytes())
        hints = {tool["name"]: classify(tool.get("annotations")) for tool in found["tools"]}
        known = server["tools"]
        if found["version"] != version:
            yield f"{server['title']}: {found['version']} is out, judged by {version}"
        for name in sorted(hints.keys() ^ known.keys()):
            yield f"{server['title']}: {name} is {'new' if name in hints else 'gone'}"
        for name in sorted(hints.keys() & known.keys()):
            if hints[name] != known[name]["published"]:
                yield f"{server['title']}: {name} is published as {hints[name]}, was {known[name]['published']}"


def main(names: list[str]) -> None:
    if names == ["--curated"]:
        print("\n".join(curated()))
        return
    LISTS.mkdir(parents=True, exist_ok=True)
    known = {server.package: server for server in SERVERS}
    wanted = [known.get(name, Published(name)) for name in names] or [
        server for server in SERVERS if not list_file(server.package).exists()
    ]
    _uv()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for line in pool.map(fetch, wanted):
            print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
