"""`python -m tests.cli.snapshots [--write] [NAME...]`: prints what the commands show at 60, 80 and 120 columns, and
writes the files that the test compares."""

from __future__ import annotations

import argparse

from tests.cli.snapshots.take import FOLDER, taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the files beside this one")
    parser.add_argument("names", nargs="*", help="beginnings of the names of files; all of them, if none is given")
    given = parser.parse_args()
    for name, text in sorted(taken().items()):
        if given.names and not name.startswith(tuple(given.names)):
            continue
        print(f"--- {name}\n{text}", end="")
        if given.write:
            (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
