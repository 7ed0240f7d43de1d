"""The key goes over the very connection on which the gateway proved that it knows it (SEC-8)."""

from __future__ import annotations

import pytest

from mcpproxy_py.cli.gateway.client import RestClient
from mcpproxy_py.cli.gateway.locate import Where
from mcpproxy_py.errors import Code, GatewayError

pytestmark = pytest.mark.proves("SEC-8")


@pytest.fixture
def client(gateway, data_dir, clean_env) -> RestClient:
    gateway.answer("GET", "/status", {"version": "1"})
    return RestClient(Where(data_dir=data_dir))


def test_a_connection_that_ended_is_not_followed_by_one_that_proved_nothing(client, gateway) -> None:
    assert client.get("status") == {"version": "1"}
    gateway.hang_up_after_each = True
    assert client.get("status") == {"version": "1"}, "proved again, where the old connection was ended"
    assert gateway.proofs == 1, "while the connection lasts, once is enough"
    gateway.hang_up_after_each = False
    assert client.get("status") == {"version": "1"}
    assert gateway.proofs == 2


def test_one_that_ends_every_connection_is_never_told_the_key(client, gateway) -> None:
    gateway.hang_up_after_proofs = True
    with pytest.raises(GatewayError, match="ends each connection at once") as failure:
        client.get("status")
    assert failure.value.code is Code.NOT_REACHABLE
    assert gateway.seen == []


def test_a_key_that_was_rotated_meanwhile_is_read_by_the_next_command(client, gateway, data_dir) -> None:
    assert client.get("status") == {"version": "1"}
    gateway.key = "mcpk_the-second-key-of-all"
    with pytest.raises(GatewayError, match="does not know this admin key"):
        client.get("status")
    (data_dir / "admin.key").write_text("mcpk_the-second-key-of-all\n")
    assert RestClient(Where(data_dir=data_dir)).get("status") == {"version": "1"}


def test_who_failed_once_may_prove_itself_later(client, gateway) -> None:
    known, gateway.key = gateway.key, "mcpk_the-second-key-of-all"
    with pytest.raises(GatewayError, match="does not know this admin key"):
        client.get("status")
    gateway.key = known
    assert client.get("status") == {"version": "1"}
    assert [seen.headers["x-api-key"] for seen in gateway.seen] == [known]
