"""How a person chooses a server of the catalog: a search, and what is worth knowing of each. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mcpproxy_py.core.catalog.model import ServerEntry
from mcpproxy_py.providers.catalog.recipe import CatalogQuestion, recipe, why_not


def shown(entry: ServerEntry) -> dict[str, Any]:
    """What a person looks for when choosing."""
    plan = recipe(entry)
    needs = [each.name for each in plan.questions if each.required and each.default is None] if plan else []
    return {
        "slug": entry.slug, "title": entry.title, "description": entry.description, "auth": entry.auth,
        "needs": needs, "package": entry.package, "url": entry.url, "source": entry.source,
        "version": entry.wire.get("version"), "lifecycle": entry.lifecycle, "warnings": list(entry.warnings),
        "refused": why_not(entry) if entry.of_registry else None,
    }  # fmt: skip


def matching(entries: Iterable[ServerEntry], query: str) -> list[ServerEntry]:
    """Those that have every word of it, in their names first."""
    words = query.lower().replace("-", " ").split()

    def text(entry: ServerEntry, *, names: bool) -> str:
        shown = (entry.slug, entry.title) if names else (entry.slug, entry.title, entry.description, *entry.tags)
        return " ".join(shown).lower()

    hits = [each for each in entries if all(word in text(each, names=False) for word in words)]
    return sorted(hits, key=lambda each: (not all(word in text(each, names=True) for word in words), each.slug))


def in_full(entry: ServerEntry, transport: str | None = None) -> dict[str, Any]:
    """With the entry it would get in the configuration, and what has to be asked for that; `config` is `None` where the
    catalog knows no package or address of it."""
    plan = recipe(entry, transport)
    site = entry.wire.get("websiteUrl") or (entry.wire.get("repository") or {}).get("url")
    return {
        **shown(entry),
        "config": dict(plan.config) if plan else None,
        "questions": [_question(each) for each in (plan.questions if plan else ())],
        "notes": list(plan.notes) if plan else [],
        "website": site,
    }  # fmt: skip


def _question(each: CatalogQuestion) -> dict[str, Any]:
    return {
        "kind": each.kind, "name": each.name, "about": each.about, "secret": each.secret, "required": each.required,
        "default": each.default, "choices": list(each.choices),
        "fills": [{"key": one.key, "at": one.at, "drops": one.drops} for one in each.fills],
    }  # fmt: skip
