"""`plain.py` with a family: a child, and a grandchild that called setsid and ignores SIGTERM.

`--pid-file FILE` gets one line for each of the three. With `--orphan` the child ends at once, so that nobody
but the environment tells where the grandchild came from.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from plain import Plain, record_pid, serve


def start(role: str, args: argparse.Namespace) -> None:
    command = [sys.executable, __file__, "--role", role, "--pid-file", args.pid_file]
    command += ["--orphan"] * args.orphan
    subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=role == "grandchild")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pid-file", required=True)
    parser.add_argument("--role", choices=("server", "child", "grandchild"), default="server")
    parser.add_argument("--orphan", action="store_true")
    args = parser.parse_args()
    if args.role == "server":
        start("child", args)
        record_pid(args.pid_file)
        serve(Plain())
        return
    if args.role == "child":
        start("grandchild", args)
    else:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    record_pid(args.pid_file)
    if not (args.role == "child" and args.orphan):
        time.sleep(120)  # an end for the case that the thing under test does not work


if __name__ == "__main__":
    main()
    os._exit(0)
