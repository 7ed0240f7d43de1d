"""The table of methods against what the SDK has of the schemas: nothing missing, nothing that there is not."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from mcp_types import _v2025_11_25 as experimental
from mcp_types import methods as schemas

from mcpproxy_py.core.policy.decide import decide
from mcpproxy_py.core.protocol.constants import HANDSHAKE, MODERN
from mcpproxy_py.core.protocol.methods import CHECKS, RISKS, TABLE, Era, refused_at, with_check
from mcpproxy_py.core.values import Ask, Policy, Relay, Server, Snapshot

pytestmark = pytest.mark.proves("GATE-14")
SURFACES = ("gate", "direct", "passthrough")
VERSIONS: dict[Era, tuple[str, ...]] = {"session-based": HANDSHAKE, "stateless": MODERN}
TASKS = {"tasks/get", "tasks/update", "tasks/cancel"}
SKILLS = {"skills/list", "skills/get", "resources/directory/read"}
OF_EXTENSIONS: dict[Era, set[str]] = {"session-based": TASKS | SKILLS, "stateless": TASKS | SKILLS}


def named(era: Era, sender: str) -> set[str]:
    return {each.name for each in TABLE if era in each.eras and each.sender == sender}


def in_schema(table: Any, era: Era) -> set[str]:
    return {method for method, version in table if version in VERSIONS[era]}


def said_in(union: Any) -> set[str]:
    """The methods of a union of the schema's messages."""
    kinds = get_args(union) or get_args(union.model_fields["root"].annotation)
    return {get_args(kind.model_fields["method"].annotation)[0] for kind in kinds}


@pytest.mark.parametrize("era", get_args(Era))
def test_the_table_has_every_method_of_the_schemas_and_no_other(era: Era) -> None:
    client = in_schema(schemas.CLIENT_REQUESTS, era) | in_schema(schemas.CLIENT_NOTIFICATIONS, era)
    if era == "session-based":  # the SDK leaves the experimental tasks out of its tables, and has them in the schema
        client |= said_in(experimental.ClientRequest) | said_in(experimental.ClientNotification)
    assert named(era, "client") == client | OF_EXTENSIONS[era]
    # In the stateless revision servers ask in their results, by the same names.
    server = in_schema(schemas.SERVER_REQUESTS, "session-based") - {"ping"}
    assert named(era, "server") == server


def test_every_method_has_one_row_in_each_era_and_one_risk() -> None:
    rows = [(each.name, era) for each in TABLE for era in each.eras]
    assert len(rows) == len({*rows})
    assert all(each.risk == RISKS[each.name] for each in TABLE)
    assert {getattr(each, surface) for each in TABLE for surface in SURFACES} == CHECKS.keys()


@pytest.mark.parametrize("era", get_args(Era))
@pytest.mark.parametrize("surface", SURFACES)
def test_what_a_revision_does_not_have_is_refused_in_it(surface: str, era: Era) -> None:
    refused = refused_at(surface, era)
    assert RISKS.keys() - named(era, "client") <= refused
    assert {"tasks/list", "tasks/result"} <= refused
    assert not refused & with_check(surface, "call")


@pytest.mark.parametrize("method", [*RISKS, "x/unknown"])
def test_a_relayed_request_risks_what_the_table_says(method: str) -> None:
    if method == "tools/call":
        return
    snapshot = Snapshot(Policy(), {"one": Server("one", "connected", {})})
    decision = decide(Ask("1", 0.0, "", {}, surface="passthrough", server="one", method=method), snapshot)
    assert isinstance(decision, Relay)
    assert decision.risk == RISKS.get(method, "write")
