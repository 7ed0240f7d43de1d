"""What a registry answers: entries of a catalog with an upstream that is made of known parts, or a reason."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from typing import Any, Final

from mcpproxy_py.providers.catalog.choosing import in_full, shown
from mcpproxy_py.providers.catalog.recipe import filled, recipe, why_not
from mcpproxy_py.providers.registry.documents import listed
from mcpproxy_py.providers.registry.entries import entry_of, reduced
from mcpproxy_py.providers.registry.fetch import decoded
from mcpproxy_py.providers.registry.places import NAME, RegistryAway, RegistryRefused
from mcpproxy_py.settings import ServerSettings

COMMANDS: Final = ("npx", "uvx", "dnx", "docker")
ANSWER: Final = "/an/answer"


def read_list(data: bytes) -> Hashable:
    """Any bytes: rows that are refused with words, and entries that are plain, bounded, and start nothing but the four
    runners. Nothing that a registry says is a reference to a secret, whatever a person answers."""
    try:
        rows = listed(decoded(data))
    except RegistryAway as why:
        return "away", str(why)[:10]
    return tuple(_row(row) for row in rows[:3])


def _row(row: Any) -> Hashable:
    try:
        entry = entry_of(reduced(row), "fuzzed", {})
    except RegistryRefused as why:
        assert 0 < len(str(why)) < 500
        return "refused"
    assert NAME.fullmatch(entry.slug) and len(entry.title) <= 100 and len(entry.description) <= 200
    assert (entry.title + entry.description).isprintable()
    json.dumps([shown(entry), in_full(entry)]).encode()
    why, plan = why_not(entry), recipe(entry)
    assert (why is None) == (plan is not None)
    if plan is None:
        assert why and "\n" not in why and len(why) < 2000
        return "unusable"
    assert "$" not in json.dumps(dict(plan.config))
    config = filled(plan, {each.name: ANSWER for each in plan.questions if each.required})
    assert "${" not in json.dumps(config)
    if "url" in config:
        assert re.match(r"https://", config["url"])
        return "address", len(plan.questions)
    assert config["command"] in COMMANDS
    ServerSettings.model_validate(config)
    return config["command"], len(plan.questions)
