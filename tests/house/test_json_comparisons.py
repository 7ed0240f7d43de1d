"""JSON values are compared by `json_values.same` and by nothing else: for Python `1 == True`, and a hint that a server
corrects from `1` to `true` went unnoticed by that.

What an expression holds is read off the annotations: of parameters and variables in its function, of fields and
properties by their name in all of the package. Where both sides may be JSON, or something that has JSON in it, the
comparison needs a place in `ALLOWED`, with the reason. That table only gets shorter.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from tests.house.markdown import ROOT

PACKAGE: Final = ROOT / "mcpproxy_py"
HOLDS_JSON: Final = re.compile(
    r"\b(?:Any|object|Listing|SaidListing|ListingInForce|Settings|UpstreamSpec|WaitingCall|Difference|CheckVerdict"
    r"|PendingCheck|PinnedListing|SwitchState|Negotiated|dict\[str, dict)\b"
)
SCALARS: Final = frozenset(
    (
        "len",
        "str",
        "int",
        "float",
        "bool",
        "type",
        "id",
        "ord",
        "repr",
        "sum",
        "digest",
        "kind",
        "set",
        "sorted",
        "range",
        "enumerate",
    )
)
TEXT_METHODS: Final = frozenset(
    ("lower", "upper", "strip", "lstrip", "rstrip", "casefold", "removeprefix", "removesuffix", "replace", "join",
     "encode", "decode", "hexdigest", "keys", "startswith", "endswith", "partition", "date", "stat", "count",
     "isoformat")
)  # fmt: skip

ALLOWED: Final[Mapping[str, frozenset[str]]] = {
    "their JSON compares itself by `same` (`ComparableObject`)": frozenset((
        "app/live_settings.py: fresh.settings == self.settings",
        "settings/changes.py: getattr(old, key) != getattr(new, key)",
        "settings/changes.py: was != now",
        "settings/changes.py: pair[0] != pair[1]",
        "upstream/spec.py: self._connection() == other._connection()",
        "upstream/supervisor.py: worker.spec != spec",
    )),
    "masking turns texts into texts, and nothing else": frozenset((
        "app/kept_listings.py: await anyio.to_thread.run_sync(self._masker.mask, tools) == tools",
        "cli/clients/diff.py: _MASKER.mask({key: value})[key] == value",
        "cli/clients/diff.py: _shown(key, value, table.lower() in _PRIVATE) == value",
        "cli/clients/diff.py: said != child.scalar",
        'core/record/secret_texts.py: mask(plain) == plain',
        "settings/masking.py: value == hidden",
        "settings/masking.py: waiting[place][0] == before",
    )),
    "a version beside it tells one from another": frozenset((
        "gateway/confirmation/waiting_calls.py: self._known[name][0] == said",
        "store/seals.py: self._known.get(name) != SwitchState(version, value)",
    )),
    "files of the operator's own, at the command line: nothing is decided": frozenset((
        "cli/clients/editing/edits.py: _plain(left) == _plain(right)",
        "cli/clients/editing/edits.py: documents.at(data, undo.path) != undo.value",
        "cli/clients/editing/json_edit.py: each.value() == undo.value",
        "cli/clients/editing/yaml_edit.py: each.value == undo.value",
        "cli/clients/plan.py: documents.at(data, undo.path) != undo.value",
        "cli/commands/config.py: change.before != change.after",
        "cli/importing/moving.py: there != was",
        "cli/importing/plan.py: config.get(key) != other.get(key)",
    )),
    "answers of models in a benchmark": frozenset((
        "bench/suite.py: (answer.get('agent'), name) == (expected['agent'], expected['capability'])",
        "bench/suite.py: answer.get('capability') == expected['capability']",
        "bench/suite.py: answer.get(key) == expected.get(key)",
    )),
    "nothing else equals an empty object": frozenset((
        "core/protocol/client_channel.py: value != {}",
        "providers/catalog/recipe.py: value != {}",
    )),
    "numbers, checked before": frozenset((
        "core/pins/schema_values.py: value == value",
        "core/pins/schema_values.py: old % new == 0",
        "core/pins/schema_values.py: new % old == 0",
        "core/protocol/tasks.py: ttl != ttl",
        "core/protocol/tasks.py: interval != interval",
    )),
    "texts, numbers, identities and columns, whose annotations this test cannot follow": frozenset((
        "cli/clients/editing/yaml_edit.py: node.start_mark.index == node.end_mark.index",
        "cli/clients/entries.py: places == _places(list(launch.command))",
        "cli/clients/plan.py: self.after != (self.document.text if self.document.exists else None)",
        "cli/commands/doctor.py: loaded.settings.address[1] == 0",
        "cli/commands/status.py: count == 1",
        "cli/gateway/client.py: page.get('next_cursor') != cursor",
        "cli/importing/plan_shown.py: row.name != row.server.name",
        "cli/importing/plan_shown.py: row.server.name == row.name",
        "cli/importing/reading.py: own.name == path.name",
        "cli/record/summary.py: total == 1",
        "cli/servers/registries.py: count == 1",
        "cli/servers/settle.py: count == 1",
        "cli/servers/view.py: configured != mode",
        "cli/stdio/conversation.py: result.get('protocolVersion') != self._version",
        "cli/stdio/pipes.py: found.get('id') == request_id",
        "core/pins/scan/other_tools.py: (bare := _look(_VERSION.sub('', _SEPARATORS.sub('', similar(name).lower())))) "
        "!= look",
        "core/pins/shown.py: pair[0] != pair[1]",
        "core/protocol/envelope.py: headers.get(names.PROTOCOL_VERSION) != version",
        "core/protocol/envelope.py: headers.get(names.METHOD) != method",
        "core/protocol/envelope.py: sent != name",
        "core/record/class_effects.py: error == Code.SERVER_MISMATCH.value",
        "core/record/short_ids.py: often[short] == 1",
        "core/search/index.py: row[1] == 1.0",
        "doctor/running.py: count == 1",
        "gateway/confirmation/desktop.py: status != 0",
        "gateway/pins/service.py: threading.get_ident() != here",
        "gateway/refusals.py: (again.server, again.tool.name, again.risk) == (to.server, to.tool.name, to.risk)",
        "providers/elicitation.py: known['digest'] == asked['digest']",
        "serve/http/hosts.py: ports[0] == ports[1]",
        "serve/http/identity/claims.py: own == Scope()",
        "serve/http/identity/keys.py: FAMILIES.get(str(algorithm)) != family",
        "serve/mcp/list_changes.py: _shown_directly(gate_options) != _shown_directly(before)",
        "serve/mcp/list_changes.py: _seen(before.servers.get(name)) != _seen(after.servers.get(name))",
        "serve/rest/app.py: found[1] == CLIENT.name",
        "serve/rest/routes/previews.py: each['name'] == body.name",
        "serve/rest/routes/previews.py: was != now",
        "settings/config_file.py: before.missing.get(name) != missing",
        "store/cluster/membership.py: gateways.c.name == who.name",
        "store/database/sqlite.py: driver.execute('PRAGMA auto_vacuum').fetchone()[0] == 0",
        "store/projection/check_rows.py: (None if there is None else digest(there.encode())) == "
        "self.digests.get(column)",
        "store/saved_state.py: switches.c.name == row.name",
        "store/sealed_records.py: sealed_records.c.kind == row.kind",
        "store/sealed_records.py: sealed_records.c.name == row.name",
        "store/verify.py: gateway.name == who.name",
        "store/verify.py: seen != {name: str(head) for name, head in known.peers.items()}",
        "tracing/traced.py: parent != around",
        "upstream/lists/notifications.py: age == self._age.get(capability, 0)",
        "upstream/oauth/attempt.py: told.get('state') != self.state",
        "upstream/oauth/core_files.py: ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0",
        "upstream/oauth/logins.py: attempt.state == state",
        "upstream/transports/http_clients.py: exchange.carried != carried",
        "upstream/transports/legacy_sse.py: urlsplit(endpoint)[:2] != urlsplit(self._url)[:2]",
        "cli/archive.py: expected.pop(name, (-1, ''))[0] != size",
        "cli/commands/policy/pins.py: each == one['subject']",
        'cli/importing/variables.py: kind == KINDS[0]',
        'core/pins/scan/hidden_characters.py: one != next_one',
        'core/pins/scan/other_tools.py: _plain(tool.server) == server',
        'word_vectors/nearness.py: found != found',
    )),
}  # fmt: skip
"""By reason. Never longer than it is: compare by `json_values.same` instead."""
MOST_ALLOWED: Final = 91


def holds_json(annotation: str | None) -> bool:
    return annotation is not None and HOLDS_JSON.search(annotation) is not None


class Annotations:
    """What the package says of names: of fields and properties in all of it, by their name."""

    def __init__(self, trees: Mapping[str, ast.Module]) -> None:
        fields: dict[str, set[str]] = defaultdict(set)
        functions: dict[str, set[str]] = defaultdict(set)
        bodies = [(tree.body, False) for tree in trees.values()]
        for body, is_class in bodies:
            for node in body:
                if isinstance(node, ast.ClassDef):
                    bodies.append((node.body, True))
                elif is_class and isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    fields[node.target.id].add(ast.unparse(node.annotation))
                elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
                    functions[node.name].add(ast.unparse(node.returns))
                    if is_class and node.decorator_list:
                        fields[node.name].add(ast.unparse(node.returns))
        self.fields = {name for name, said in fields.items() if any(map(holds_json, said))}
        """Those that may hold JSON."""
        maybe = {name for name, said in functions.items() if any(map(holds_json, said))}
        self.functions = {*functions, *TEXT_METHODS, *SCALARS} - maybe
        """Those that never give any."""


class Comparisons(ast.NodeVisitor):
    """The comparisons of one module whose sides may both hold JSON."""

    def __init__(self, annotations: Annotations) -> None:
        self.known = annotations
        self.found: list[str] = []
        self.scopes: list[dict[str, str]] = [{}]

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        scope = {each.arg: ast.unparse(each.annotation) for each in arguments if each.annotation is not None}
        self.scopes.append({**self.scopes[-1], **scope})
        inside = list(ast.walk(node))
        for each in inside:
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                self.scopes[-1][each.target.id] = ast.unparse(each.annotation)
        for each in inside:
            if isinstance(each, ast.Assign):
                self.assigned(each)
            elif isinstance(each, ast.For | ast.comprehension) and self.may_hold_json(each.iter):
                for name in ast.walk(each.target):
                    if isinstance(name, ast.Name):
                        self.scopes[-1].setdefault(name.id, "Any")
        self.generic_visit(node)
        self.scopes.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def assigned(self, node: ast.Assign) -> None:
        """Of names that a plain assignment gives a value."""
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for name, value in pairs:
                if isinstance(name, ast.Name) and name.id not in self.scopes[-1]:
                    self.scopes[-1][name.id] = "Any" if self.may_hold_json(value) else "str"

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module == "operator":
            self.found += [f"operator.{each.name}" for each in node.names if each.name in ("eq", "ne", "contains")]

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
            if isinstance(operator, ast.Eq | ast.NotEq) and self.may_hold_json(left) and self.may_hold_json(right):
                self.found.append(ast.unparse(ast.Compare(left, [operator], [right])))
        self.generic_visit(node)

    def may_hold_json(self, node: ast.expr) -> bool:
        match node:
            case ast.Constant():
                return type(node.value) in (int, float, bool)
            case ast.JoinedStr() | ast.Compare() | ast.UnaryOp() | ast.BoolOp(op=ast.And()):
                return False
            case ast.BinOp():
                return self.may_hold_json(node.left) and self.may_hold_json(node.right)
            case ast.Tuple() | ast.List() | ast.Set():
                return any(map(self.may_hold_json, node.elts))
            case ast.Dict() | ast.DictComp() | ast.ListComp() | ast.BoolOp() | ast.IfExp() | ast.Await():
                return True
            case ast.NamedExpr():
                return self.may_hold_json(node.value)
            case ast.Name():
                return holds_json(self.scopes[-1].get(node.id))
            case ast.Attribute():
                return node.attr in self.known.fields
            case ast.Subscript():
                return self.may_hold_json(node.value) or isinstance(node.slice, ast.Constant)
            case ast.Call(func=ast.Attribute(attr=name)):
                return name == "get" or name not in self.known.functions
            case ast.Call(func=ast.Name(id=name)):
                return name not in self.known.functions
            case _:
                return True


def comparisons(sources: Mapping[str, str]) -> Iterator[str]:
    trees = {name: ast.parse(text) for name, text in sources.items()}
    annotations = Annotations(trees)
    for name, tree in trees.items():
        visitor = Comparisons(annotations)
        visitor.visit(tree)
        yield from (f"{name}: {each}" for each in visitor.found)


def of_package() -> dict[str, str]:
    return {each.relative_to(PACKAGE).as_posix(): each.read_text() for each in sorted(PACKAGE.rglob("*.py"))}


def test_json_is_compared_by_one_function() -> None:
    found = set(comparisons(of_package()))
    allowed = {each for places in ALLOWED.values() for each in places}
    assert not found - allowed, "compare JSON values by `json_values.same`; these use `==`"
    assert not allowed - found, "these are gone: take them out of ALLOWED, and lower MOST_ALLOWED"
    assert sum(map(len, ALLOWED.values())) == MOST_ALLOWED


HOLES: Final = {
    "listing.py: operator.eq": "from operator import eq",
    "wires.py: wire != known.get(name)": """
def differs(wire: Mapping[str, Any], known: dict[str, Any], name: str) -> bool:
    return wire != known.get(name)
""",
    "loops.py: wire != known.get('name')": """
def differs(wires: list[dict[str, Any]], known: dict[str, Any]) -> bool:
    return any(wire != known.get('name') for wire in wires)
""",
    "verdicts.py: verdict.args == pending.args": """
class Pending(NamedTuple):
    args: Mapping[str, Any]

def fits(verdict: Pending, pending: Pending) -> bool:
    return verdict.args is pending.args or verdict.args == pending.args
""",
    "values.py: _value(there) == _value(value)": """
def _value(text: str) -> Any: ...

def equal(there: str, value: str) -> bool:
    return _value(there) == _value(value)
""",
    "assigned.py: before != after": """
def changed(old: dict[str, Any], new: dict[str, Any]) -> bool:
    before, after = old["annotations"], new["annotations"]
    return before != after
""",
}
HARMLESS: Final = """
class Tool:
    name: str

def texts(tool: Tool, given: str, row: dict[str, Any]) -> bool:
    return tool.name == given or row["type"] == "text" or len(row) != len(given) or same(row, {})
"""


def test_what_went_unnoticed_is_found() -> None:
    found = set(comparisons({place.partition(":")[0]: text for place, text in HOLES.items()}))
    assert found == set(HOLES)
    assert not list(comparisons({"harmless.py": HARMLESS}))
