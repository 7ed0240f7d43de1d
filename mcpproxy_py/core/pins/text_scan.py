"""What the texts of a server hide: a finding for each thing in them that no honest description needs.

Everything an agent is shown is read: a tool's name, title and description, every text of its schemas, `_meta`, a
server's instructions, prompts. A finding says where and what. It is a hint for a person, and only hidden characters
block: what a person cannot see, nobody can approve.

The scan is pure and takes time in proportion to the texts; of a very long text it reads both ends, and says so.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from mcpproxy_py.core.json_values import as_object
from mcpproxy_py.core.pins.scan.encoded_text import encoded_texts
from mcpproxy_py.core.pins.scan.finding import BLOCKING, Finding, FindingKind, excerpt_of
from mcpproxy_py.core.pins.scan.hidden_characters import hidden_characters
from mcpproxy_py.core.pins.scan.listed_texts import ListedText, texts_of, written
from mcpproxy_py.core.pins.scan.other_tools import OtherTools
from mcpproxy_py.core.pins.scan.plain_text import plain_name, plain_text, spelled_out, undisguised, without_reports
from mcpproxy_py.core.pins.scan.sentence_rules import CONTRADICTIONS, DENIED, SENTENCE_RULES
from mcpproxy_py.core.pins.scan.text_rules import (
    ABOUT_AGENTS,
    CONTEXT_ARGUMENTS,
    CONTEXT_TEXT,
    RULES,
    SECRET_DEFAULT,
    TextRule,
)

__all__ = (
    "BLOCKING", "MAX_FINDINGS", "NO_OTHERS", "Finding", "FindingKind", "OtherTools", "scan_listing", "scan_prompt",
    "scan_text", "scan_tool",
)  # fmt: skip

NO_OTHERS: Final = OtherTools({})
ALL_RULES: Final = (*RULES, *SENTENCE_RULES)
ANCHORS: Final[dict[str, list[int]]] = defaultdict(list)
"""Of each anchor of a rule's first set the rules that want it."""
for _index, _rule in enumerate(ALL_RULES):
    for _anchor in _rule.anchors[0]:
        ANCHORS[_anchor].append(_index)
MAX_FINDINGS: Final = 32
"""Of one tool; more say nothing new."""
MAX_READ: Final = 98_304
"""Characters of one tool's texts that rules read, from the front, and as many of the last long text from its end."""
FEWEST_LETTERS: Final = 6
SHORT_TEXT: Final = 60
"""Texts up to this length, one after the other, may be pieces of one sentence."""


def scan_text(text: str, where: str, others: OtherTools = NO_OTHERS) -> tuple[Finding, ...]:
    """Of one text, as a server's instructions are."""
    return _distinct(_of_texts([ListedText((None, where), text)], others, ""))


def scan_tool(wire: Mapping[str, Any], others: OtherTools = NO_OTHERS) -> tuple[Finding, ...]:
    name = wire.get("name")
    return _distinct(_of_tool(wire, others, name if isinstance(name, str) else ""))


def scan_prompt(wire: Mapping[str, Any], others: OtherTools = NO_OTHERS) -> tuple[Finding, ...]:
    return _distinct(_of_texts(list(texts_of(wire)), others, ""))


def scan_listing(
    tools: Mapping[str, Mapping[str, Any]],
    instructions: str | None,
    prompts: Mapping[str, Mapping[str, Any]],
    others: OtherTools = NO_OTHERS,
    about: Mapping[str, Any] | None = None,
) -> dict[str, tuple[Finding, ...]]:
    """By subject (`tool:NAME`, `prompt:NAME`, `instructions`, `server`), those that have any."""
    found = {f"tool:{name}": scan_tool(wire, others) for name, wire in tools.items()}
    found |= {f"prompt:{name}": scan_prompt(wire, others) for name, wire in prompts.items()}
    if instructions:
        found["instructions"] = scan_text(instructions, "instructions", others)
    if about:
        found["server"] = scan_prompt({**about, **about.get("serverInfo", {}), "serverInfo": None}, others)
    return {subject: findings for subject, findings in found.items() if findings}


def _distinct(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """One of a kind for each place, and no more than anybody reads; what blocks comes first."""
    kept: dict[tuple[str, str], Finding] = {}
    for count, finding in enumerate(findings):
        kept.setdefault((finding.kind, finding.where), finding)
        if len(kept) >= 4 * MAX_FINDINGS or count >= 100 * MAX_FINDINGS:
            break
    return tuple(sorted(kept.values(), key=lambda each: not each.blocks)[:MAX_FINDINGS])


def _of_tool(wire: Mapping[str, Any], others: OtherTools, name: str) -> Iterator[Finding]:
    texts = list(texts_of(wire))
    yield from _of_texts(texts, others, name)
    yield from _contradictions(wire, texts)
    if (other := others.shadowed_by(wire)) is not None:
        yield Finding(
            "shadows", "name", excerpt_of(name, 0, len(name)),
            f"It could be taken for {excerpt_of(other.name, 0, 60)} of server {excerpt_of(other.server, 0, 60)}: "
            "the name reads the same, and so do the parameters.",
        )  # fmt: skip


def _of_texts(texts: Sequence[ListedText], others: OtherTools, tool: str) -> Iterator[Finding]:
    for listed in texts:
        if (hidden := hidden_characters(listed.text, listed.role)) is not None:
            yield Finding(
                "hides_characters", written(listed.at), excerpt_of(listed.text, hidden.start, hidden.end),
                f"It has {hidden.what}.",
            )  # fmt: skip
    left = MAX_READ
    read: list[tuple[ListedText, str]] = []
    for listed in texts:
        if len(listed.text) < FEWEST_LETTERS:
            continue
        if len(listed.text) > left:
            yield Finding(
                "instructs", written(listed.at), f"{len(listed.text)} characters",
                f"Only {left} characters from its start and some from its end were read for orders: it is too long.",
            )  # fmt: skip
            listed = listed._replace(text=f"{listed.text[:left]}\n{listed.text[-max(left, 4096) :]}")
        left = max(0, left - len(listed.text))
        read.append((listed, plain_name(listed.text) if listed.role == "name" else plain_text(listed.text)))
    whole = "\n".join(plain for _, plain in read)
    anchors = [anchor for anchor in ANCHORS if anchor in whole]
    found: set[str] = set()
    for listed, plain in read:
        for finding in _of_one(listed, plain, anchors, others, tool):
            found.add(finding.kind)
            yield finding
    yield from (finding for finding in _in_pieces(texts) if finding.kind not in found)


def _of_one(listed: ListedText, plain: str, anchors: Iterable[str], others: OtherTools, tool: str) -> Iterator[Finding]:
    text = listed.text
    yield from _by_rules(plain, listed, anchors)
    if listed.role == "name":
        if listed.at[0] is not None and CONTEXT_ARGUMENTS.search(plain) and not ABOUT_AGENTS.search(plain_name(tool)):
            yield Finding(
                "asks_for_secrets", written(listed.at), excerpt_of(text, 0, len(text)),
                "A parameter of this name takes what an agent should keep to itself.",
            )  # fmt: skip
    else:
        if (again := undisguised(plain)) is not None:
            yield from _by_rules(again, listed)
        if (run := spelled_out(plain)) is not None:
            yield Finding(
                "instructs", written(listed.at), excerpt_of(plain, *run.span()), "It spells words out letter by letter."
            )
        if listed.parameter and not ABOUT_AGENTS.search(plain_name(tool)) and (found := CONTEXT_TEXT.search(plain)):
            yield Finding(
                "asks_for_secrets", written(listed.at), excerpt_of(plain, *found.span()),
                "The parameter takes what an agent should keep to itself.",
            )  # fmt: skip
        if listed.key in ("default", "const") and (found := SECRET_DEFAULT.search(plain)):
            yield Finding(
                "asks_for_secrets",
                written(listed.at),
                excerpt_of(plain, *found.span()),
                "By default it takes a file that holds secrets.",
            )
        if (encoded := next(encoded_texts(text), None)) is not None:
            yield Finding(
                "encoded", written(listed.at), excerpt_of(text, encoded.start, encoded.end),
                f"It carries {encoded.what}.",
            )  # fmt: skip
    mentions = listed.role == "text" and " " in text  # one word alone is a value
    if mentions and (named := next(others.named_in(text), None)) is not None:
        server = excerpt_of(named.tool.server, 0, 60)
        yield Finding(
            "names_other_tools", written(listed.at), excerpt_of(text, named.start, named.end),
            f"It names {excerpt_of(named.tool.name, 0, 60)}, a tool of server {server}.",
        )  # fmt: skip


def _contradictions(wire: Mapping[str, Any], texts: Sequence[ListedText]) -> Iterator[Finding]:
    """Where a description claims that the tool does no harm, and the rest or `destructiveHint` says otherwise."""
    description = wire.get("description")
    said = plain_text(description[:MAX_READ]) if isinstance(description, str) else ""
    for what, claim, deed in CONTRADICTIONS:
        claimed = claim.search(said)
        if claimed is None or DENIED.search(said, max(0, claimed.start() - 50), claimed.start()):
            continue
        destroys = (as_object(wire.get("annotations")) or {}).get("destructiveHint") is True
        if destroys and claim is CONTRADICTIONS[0][1]:
            yield Finding(
                "contradicts", "annotations.destructiveHint", excerpt_of(said, *claimed.span()), f"It {what}."
            )
            return
        for listed in (each for each in texts if each.parameter or each.at == (None, "description")):
            text = plain_text(listed.text) if listed.parameter else said
            if (found := deed.search(text)) is not None:
                yield Finding("contradicts", written(listed.at), excerpt_of(text, *found.span()), f"It {what}.")
                return


def _by_rules(plain: str, listed: ListedText, anchors: Iterable[str] = ANCHORS) -> Iterator[Finding]:
    """One finding for each sentence: what one sentence wants is one cause, however many rules it meets."""
    if " " not in plain and plain.isascii():
        return  # one word gives no order
    claimed: set[int] = set()
    sentences: list[tuple[int, int]] = []
    reported: str | None = None
    for index in sorted({index for anchor in filter(plain.__contains__, anchors) for index in ANCHORS[anchor]}):
        rule = ALL_RULES[index]
        if not all(any(map(plain.__contains__, each)) for each in rule.anchors[1:]):
            continue
        if not sentences:
            sentences = list(pairwise([0, *(end.end() for end in SENTENCE_END.finditer(plain)), len(plain)]))
        if (found := _match(rule, plain, sentences, claimed)) is None:
            continue
        if reported is None:
            reported = without_reports(plain)
        if reported != plain and (found := _match(rule, reported, sentences, claimed)) is None:
            continue
        claimed.add(bisect(sentences, (found.start(), len(plain))))
        yield Finding(rule.kind, written(listed.at), excerpt_of(plain, *found.span()), f"It {rule.what}.")


MAX_TRIES: Final = 64
SENTENCE_END: Final = re.compile(r"[.!?] |。")
# before an order they make it another one
NEGATIONS: Final = ("not ", "never ", "n't ", "n’t ", "cannot ", "without ", "avoid ")


def _match(
    rule: TextRule, plain: str, sentences: Sequence[tuple[int, int]], claimed: Collection[int]
) -> re.Match[str] | None:
    """The first match that nothing excuses, in a sentence that is not claimed by another rule. A rule with several sets
    of anchors is about one sentence."""
    for start, end in sentences if len(rule.anchors) > 1 else [(0, len(plain))]:
        if not all(any(map(plain[start:end].__contains__, each)) for each in rule.anchors):
            continue
        for _, found in zip(range(MAX_TRIES), rule.pattern.finditer(plain, start, end), strict=False):
            if plain[max(0, found.start() - 8) : found.start()].endswith(NEGATIONS):
                continue
            if rule.unless is not None and rule.unless.search(plain, max(start, found.start() - 60), found.end()):
                continue
            if bisect(sentences, (found.start(), len(plain))) not in claimed:
                return found
    return None


def _in_pieces(texts: Sequence[ListedText]) -> Iterator[Finding]:
    """A sentence that was cut over several short texts."""
    pieces = [
        plain_text(each.text)
        for each in texts
        if each.role == "text" and each.key not in ("$schema", "type") and 3 < len(each.text) <= SHORT_TEXT
    ]
    if len(pieces) > 1:
        whole = " ".join(pieces)[:MAX_READ]
        for finding in _by_rules(whole, ListedText((None, "inputSchema"), whole)):
            yield finding._replace(text=f"Put together, its short texts say more than each of them. {finding.text}")
