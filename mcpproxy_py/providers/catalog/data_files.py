"""Where the catalog's data lies: shipped in the package, with the user's own directory over it.

A file of the user's takes the place of the shipped one (`agents/<agent>/capabilities/current.json`,
`capabilities.json`); entries of `aliases.json` and `servers.json` are laid over the shipped entries one by one,
so that adding a server does not mean keeping a copy of a hundred.

The JSON Schemas of the data files, compiled when they are first needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import jsonschema_rs

SHIPPED: Final = Path(__file__).parent / "data"
SCHEMAS: Final = SHIPPED / "schemas"
MAX_BYTES: Final = 8 * 1024 * 1024


class DataError(ValueError):
    """A data file that cannot be used. The message names it and says why."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file, what it is (the stem of its schema), and whether it is the user's."""

    path: Path
    kind: str
    own: bool

    def read(self) -> Any:
        try:
            if self.path.stat().st_size > MAX_BYTES:
                raise DataError(f"{self.path}: larger than {MAX_BYTES} bytes")
            return json.loads(self.path.read_bytes())
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise error if isinstance(error, DataError) else DataError(f"{self.path}: not JSON: {error}") from None


def data_files(own: Path | None) -> Iterator[DataFile]:
    """Every file that counts, in the order in which they are laid over one another."""
    yield _first(own, "capabilities.json", "capabilities")
    yield from _agents(own)
    for kind in ("aliases", "servers"):
        yield from laid_over(own, kind)


def laid_over(own: Path | None, kind: str) -> Iterator[DataFile]:
    """The shipped file, and the user's whose entries go before its."""
    yield DataFile(SHIPPED / f"{kind}.json", kind, own=False)
    if own is not None and (mine := own / f"{kind}.json").is_file():
        yield DataFile(mine, kind, own=True)


def checked(file: DataFile) -> Any:
    """What it holds. Shipped files are believed, as tests check them. Raises `DataError`."""
    document = file.read()
    if file.own and (problem := first_problem(file.kind, document)):
        raise DataError(f"{file.path}: {problem}")
    return document


def _first(own: Path | None, name: str, kind: str) -> DataFile:
    mine = own / name if own is not None else None
    return (
        DataFile(mine, kind, own=True) if mine is not None and mine.is_file() else DataFile(SHIPPED / name, kind, False)
    )


def _agents(own: Path | None) -> Iterator[DataFile]:
    found = {path.parts[-3]: DataFile(path, "agent", own=False) for path in _sheets(SHIPPED)}
    if own is not None:
        found |= {path.parts[-3]: DataFile(path, "agent", own=True) for path in _sheets(own)}
    yield from (found[name] for name in sorted(found))


def _sheets(root: Path) -> list[Path]:
    return sorted(root.glob("agents/*/capabilities/current.json"))


def problems(kind: str, document: Any) -> Iterator[str]:
    """Everything a schema finds wrong with a document, each with its place in it."""
    for error in _validator(kind).iter_errors(document):
        place = "/".join(map(str, error.instance_path))
        yield f"{place or 'the document'}: {error.message.partition(chr(10))[0][:300]}"


def first_problem(kind: str, document: Any) -> str | None:
    return next(problems(kind, document), None)


@lru_cache
def _validator(kind: str) -> jsonschema_rs.Validator:
    schema = json.loads((SCHEMAS / f"{kind}.schema.json").read_bytes())
    return jsonschema_rs.validator_for(schema, validate_formats=True)
