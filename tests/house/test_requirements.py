"""The manifest and the marks agree, both ways, and together they are the whole specification."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.requirements import DONE, NOT_YET, proven, spec_codes

SPEC = Path(__file__).parents[3] / "shared" / "SPEC.md"


def test_every_code_that_is_done_names_exactly_the_tests_that_name_it() -> None:
    assert {code: tests for code, tests in proven().items() if code not in NOT_YET} == DONE, (
        "run `python -m tests.requirements`"
    )


def test_no_test_names_an_unknown_code_and_none_is_both_done_and_not() -> None:
    assert set(proven()) <= set(DONE) | set(NOT_YET)
    assert not set(DONE) & set(NOT_YET)
    assert all(DONE.values()), "a code without a test is not done"


@pytest.mark.skipif(not SPEC.exists(), reason="the specification is not beside this checkout")
def test_the_manifest_holds_every_code_of_the_specification_and_no_other() -> None:
    assert set(DONE) | set(NOT_YET) == spec_codes(SPEC.read_text())
