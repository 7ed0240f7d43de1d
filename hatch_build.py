"""What the build adds to `pyproject.toml`: the description that a package index shows, and the project's addresses.

In the repository the README's links are relative, which an index cannot follow. Where the address of the repository is
known (`MCPPROXY_REPOSITORY_URL`), they lead there, to the tag of this version; without one, they become plain text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

VARIABLE = "MCPPROXY_REPOSITORY_URL"
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
FOREIGN = re.compile(r"[a-z][a-z0-9+.-]*:|#")


class CustomMetadataHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        address = os.environ.get(VARIABLE, "").strip().rstrip("/")
        if address and not re.fullmatch(r"https://[^\s\"<>()]+", address):
            raise ValueError(f"{VARIABLE} must be an https address")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": described(text, address, version(self.root))}
        if address:
            metadata["urls"] = addresses(address)


def version(root: str) -> str:
    found = re.search(r'__version__ = "([^"]+)"', (Path(root) / "mcpproxy_py" / "__init__.py").read_text())
    assert found is not None
    return found[1]


def described(readme: str, address: str, version: str) -> str:
    def absolute(link: re.Match[str]) -> str:
        text, target = link.groups()
        if FOREIGN.match(target):
            return link[0]
        return f"[{text}]({address}/blob/v{version}/{target})" if address else text

    return LINK.sub(absolute, readme)


def addresses(address: str) -> dict[str, str]:
    return {
        "Homepage": address,
        "Documentation": f"{address}/blob/main/docs/README.md",
        "Source": address,
        "Issues": f"{address}/issues",
        "Changelog": f"{address}/blob/main/CHANGELOG.md",
        "Security": f"{address}/security",
    }
