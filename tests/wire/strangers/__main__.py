"""Other people's servers straight and through the gateway, cell by cell: `python -m tests.wire.strangers`.

Prints each cell that differs, with the reason where one is known and who gives it. Exit status 1 where a cell differs
for no known reason.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio

from tests.support.gateway import Running, gateway
from tests.wire.strangers import stories
from tests.wire.strangers.matrix import CLIENTS, KINDS, SURFACES, Cell, Place, compared, kinds_of, place
from tests.wire.strangers.reasons import reason
from tests.wire.strangers.servers import Stranger, all_of_them

AT_A_TIME = 4


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.wire.strangers", description=__doc__)
    parser.add_argument("--server", action="append", help="only servers whose name begins so; story NAME for a story")
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--surface", action="append", choices=SURFACES)
    parser.add_argument("--client", action="append", choices=CLIENTS)
    given = parser.parse_args()
    chosen = tuple(given.server or ("",))
    strangers = [each for each in all_of_them() if each.name.startswith(chosen)]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        rows = [pool.submit(_row, each, kind, given) for each in strangers for kind in each.transports]
        cells = [cell for row in rows for cell in row.result()]
    return shown([*cells, *stories.cells(chosen)])


def _row(stranger: Stranger, transport: str, given: argparse.Namespace) -> list[Cell]:
    """One server, behind a gateway of its own: two servers may list resources of one URI."""
    with place(stranger, transport) as where, tempfile.TemporaryDirectory() as folder:
        config = {"surfaces": [*SURFACES], "mcpServers": {where.name: where.entry}}
        with gateway(Path(folder) / "data", config) as running:
            running.wait_for(where.name)
            return anyio.run(_compared, where, running, given)


async def _compared(where: Place, running: Running, given: argparse.Namespace) -> list[Cell]:
    """One at a time: what a server asks while others call it may be anybody's."""
    cells: list[Cell] = []
    for kind in given.kind or KINDS:
        if kind not in kinds_of(where.stranger):
            continue
        for client in given.client or CLIENTS:
            for surface in given.surface or SURFACES:
                cell = await compared(where, running, client, surface, kind)
                cells.append(cell)
                print("equal     " if cell.equal else "differs   ", cell, flush=True)
    return cells


def shown(cells: list[Cell]) -> int:
    """The differences by their reason, those without one last."""
    known: dict[str, list[Cell]] = {}
    for cell in cells:
        if not cell.equal and (why := reason(cell)) is not None:
            known.setdefault(why, []).append(cell)
    for why, those in known.items():
        print(f"\n{why}", *(f"  {cell}" for cell in those), sep="\n")
    unknown = [cell for cell in cells if not cell.equal and reason(cell) is None]
    for cell in unknown:
        print(f"\nDIFFERS    {cell}\n    {cell.difference()}")
    equal = sum(cell.equal for cell in cells)
    explained = sum(len(those) for those in known.values())
    print(f"\n{len(cells)} cells: {equal} equal, {explained} explained, {len(unknown)} not")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
