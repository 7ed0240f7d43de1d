"""A part of `tests.wire.login_matrix` in every run: one SDK logs in with a certified provider as it comes (SEC-2)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.wire.login_matrix import CLIENTS, DOCUMENT, PROVIDERS, Site, run, site

pytestmark = pytest.mark.proves("SEC-2")


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site("strict", tmp_path_factory.mktemp("provider")) as found:
        yield found


@pytest.mark.parametrize(
    "what", ["first login", "step-up, direct", "step-up, passthrough", "scopes not given", "renewal"]
)
def test_a_client_logs_in_where_clients_are_held_to_the_scopes_they_registered_with(strict: Site, what: str) -> None:
    assert run("typescript-2", what, strict) is None


def test_the_table_in_the_documents_was_written_by_a_whole_run() -> None:
    text = DOCUMENT.read_text("utf-8")
    assert [each for each in PROVIDERS if f"## With the {each} provider" not in text] == []
    assert [each for each in CLIENTS.values() if each not in text] == []
    assert "not run" not in text
