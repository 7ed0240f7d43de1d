"""Skills (`io.modelcontextprotocol/skills`): a folder of files each, with their digests."""

from __future__ import annotations

import hashlib
import posixpath
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from .calls import Call

EXTENSION = "io.modelcontextprotocol/skills"
SETTINGS = {"directoryRead": True}
FOLDER = "inode/directory"
MARKDOWN = "text/markdown"


def _manual(name: str, description: str, body: str) -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n\n# {name}\n\n{body}\n"


SKILLS: dict[str, dict[str, str]] = {
    "brew-tea": {
        "SKILL.md": _manual("brew-tea", "How tea is made here", "Choose from `leaves/`."),
        "leaves/green.md": "80 degrees, two minutes.\n",
        "leaves/rare/white.md": "70 degrees, five minutes.\n",
    },
    "house/greet-guests": {"SKILL.md": _manual("greet-guests", "What guests are told", "Say hello.")},
    "tidy-up": {"SKILL.md": _manual("tidy-up", "Where things belong", "Everything has a place.")},
}
WORDS = {f"skill://{root}/{path}": words for root, files in SKILLS.items() for path, words in files.items()}
FOLDERS = {f"skill://{root}": "" for root in SKILLS}
for _uri in WORDS:
    _root = next(root for root in SKILLS if _uri.startswith(f"skill://{root}/"))
    _folder = posixpath.dirname(_uri)
    while _folder != f"skill://{_root}":
        FOLDERS[_folder] = ""
        _folder = posixpath.dirname(_folder)
CONTENTS: dict[str, dict[str, Any]] = {uri: {"mimeType": MARKDOWN, "text": words} for uri, words in WORDS.items()}


def _front(root: str) -> dict[str, str]:
    lines = SKILLS[root]["SKILL.md"].split("---\n")[1].splitlines()
    return dict(line.split(": ", 1) for line in lines)


def _entry(root: str) -> dict[str, Any]:
    files = [
        {
            "uri": f"skill://{root}/{path}",
            "digest": f"sha256:{hashlib.sha256(words.encode()).hexdigest()}",
            "size": len(words.encode()),
        }
        for path, words in SKILLS[root].items()
    ]
    return {"uri": f"skill://{root}/SKILL.md", "frontmatter": _front(root), "resources": files}


ENTRIES = [_entry(root) for root in SKILLS]
RESOURCES = [
    {"uri": entry["uri"], "name": entry["frontmatter"]["name"], "description": entry["frontmatter"]["description"],
     "mimeType": MARKDOWN}
    for entry in ENTRIES
]  # fmt: skip


async def get(call: Call) -> dict[str, Any]:
    uri = call.params.get("uri")
    for entry in ENTRIES:
        if entry["uri"] == uri:
            return {"skill": entry}
    raise MCPError(INVALID_PARAMS, f"There is no skill {uri}")


async def read_directory(call: Call) -> dict[str, Any]:
    uri = call.params.get("uri")
    if uri not in FOLDERS:
        raise MCPError(INVALID_PARAMS, f"{uri} is no directory")
    inside = sorted(each for each in (*CONTENTS, *FOLDERS) if posixpath.dirname(each) == uri)
    return {"resources": [_child(each) for each in inside]}


def _child(uri: str) -> dict[str, Any]:
    kind = FOLDER if uri in FOLDERS else CONTENTS[uri]["mimeType"]
    return {"uri": uri, "name": posixpath.basename(uri), "mimeType": kind}
