"""How many attacks there are, by kind: `python -m tests.attacks`. Counted from what pytest collects, by file: a test
with parameters is as many attacks as it has cases."""

from __future__ import annotations

import ast
import contextlib
import io
import sys
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent


class Collected:
    """Notes what is collected."""

    def __init__(self) -> None:
        self.by_file: Counter[Path] = Counter()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.by_file.update(item.path for item in items)


def counts() -> Counter[str]:
    """Attacks by kind, which is the name of their file."""
    found = Collected()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        status = pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", str(HERE)], plugins=[found])
    if status != pytest.ExitCode.OK:
        raise SystemExit(f"the attacks cannot be collected:\n{said.getvalue()}")
    return Counter({kind_of(path): many for path, many in found.by_file.items()})


def kind_of(path: Path) -> str:
    return path.stem.removeprefix("test_").replace("_", " ")


def about(kind: str) -> str:
    """The first sentence of the file's docstring."""
    text = ast.get_docstring(ast.parse((HERE / f"test_{kind.replace(' ', '_')}.py").read_text("utf-8"))) or ""
    return " ".join(text.split()).partition(". ")[0].partition(": ")[0].rstrip(".")


def main() -> None:
    found = counts()
    for kind, many in sorted(found.items()):
        print(f"{many:>6}  {kind:<26} {about(kind)}")
    print(f"{found.total():>6}  in all")


if __name__ == "__main__":
    sys.exit(main())
