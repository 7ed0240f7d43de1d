from __future__ import annotations

import json

import pytest


@pytest.mark.proves("CAT-3")
def test_catalog_validate_checks_ones_own_data_and_says_what_is_wrong(run, data_dir) -> None:
    own = data_dir / "catalog"
    own.mkdir()
    (own / "aliases.json").write_text('{"aliases": {"robots": "Robots"}}')
    ran = run("catalog", "validate")
    assert ran.status == 1
    assert "'robots' stands for 'Robots', which is no capability" in ran.err
    assert ran.out == ""
    answer = json.loads(run("catalog", "validate", "-o", "json").out)
    assert (answer["directory"], answer["valid"]) == (str(own), False)
    assert {"level", "where", "message"} == set(answer["findings"][0])


@pytest.mark.proves("CAT-3", "CLI-2")
def test_catalog_validate_of_a_directory_that_is_not_there_says_so(run) -> None:
    ran = run("catalog", "validate", "/nowhere/at/all")
    assert ran.status == 1
    assert "/nowhere/at/all" in ran.err
