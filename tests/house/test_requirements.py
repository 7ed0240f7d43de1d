"""Marks and specification agree, both ways: every code is proven or known to be missing, and no test names another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirements import CODES, NOT_YET, manifest, spec_codes

ROOT = Path(__file__).parents[2]
SPEC = ROOT.parent / "shared" / "SPEC.md"
SAMPLE = """
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.proves("GATE-1")]

@pytest.mark.proves("UP-1", "GATE-1")
def test_a_function(): ...

@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.proves("UP-2"))])
async def test_a_coroutine(n): ...

@pytest.mark.proves("ACT-1")
class TestTogether:
    @pytest.mark.proves("ACT-2")
    def test_a_method(self): ...

@pytest.mark.proves("SEC-1")
def helper(): ...
"""


def test_every_code_is_proven_by_a_test_or_known_to_be_missing() -> None:
    assert [code for code in CODES if code not in NOT_YET and code not in manifest()] == []


def test_no_test_names_an_unknown_code() -> None:
    assert {code: tests for code, tests in manifest().items() if code not in CODES} == {}


def test_what_is_missing_is_a_known_code_and_said_in_words() -> None:
    assert set(NOT_YET) <= set(CODES)
    assert [code for code, missing in NOT_YET.items() if len(missing.split()) < 4] == []


@pytest.mark.skipif(not SPEC.exists(), reason="the specification is not beside this checkout")
def test_the_known_codes_are_those_of_the_specification() -> None:
    assert set(CODES) == spec_codes(SPEC.read_text(encoding="utf-8"))


def test_marks_are_found_wherever_pytest_takes_them_from(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(SAMPLE)
    here = "test_sample.py"
    alone, coroutine, method = (f"{here}::test_a_function", f"{here}::test_a_coroutine",
                                f"{here}::TestTogether::test_a_method")  # fmt: skip
    assert manifest(tmp_path) == {
        "GATE-1": (alone, coroutine, method),
        "UP-1": (alone,),
        "UP-2": (coroutine,),
        "ACT-1": (method,),
        "ACT-2": (method,),
    }


def test_a_mark_that_cannot_be_read_is_an_error_and_not_left_out(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text("@pytest.mark.proves(CODE)\ndef test_it(): ...\n")
    with pytest.raises(ValueError):
        manifest(tmp_path)


def test_the_manifest_is_printed_for_people() -> None:
    def printed(*codes: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tests.requirements", *codes]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert [line.split()[0] for line in printed().stdout.splitlines() if not line.startswith(" ")] == list(CODES)
    one = printed("GATE-3").stdout.splitlines()
    assert one == [f"GATE-3  {len(one) - 1} tests", *(f"    {test}" for test in manifest()["GATE-3"])]
    wrong = printed("GATE-99")
    assert wrong.returncode == 1
    assert "GATE-99" in wrong.stderr
