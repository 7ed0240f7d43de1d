"""Fuzz one target or each, and say what came of it."""

from __future__ import annotations

import argparse
import logging
import sys

from tests.fuzz.engine import Entry, Fuzzer, Tally, corpus_of, crashes_at, distilled, keep, smaller
from tests.fuzz.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), help="only this one; may be repeated")
    parser.add_argument("--minutes", type=float, default=1.0, help="for each target (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="another one gives another run (default: 0)")
    parser.add_argument("--keep", action="store_true", help="keep inputs that reach something new in the corpus")
    parser.add_argument("--list", action="store_true", help="say what each target holds, and end")
    options = parser.parse_args()
    chosen = options.target or list(TARGETS)
    if options.list:
        for name in chosen:
            print(f"{name}\n    {TARGETS[name].holds}")
        return 0
    logging.disable(logging.CRITICAL)  # what a hostile input makes us log is no news here
    print(f"{'target':<20}{'executions':>11}{'per second':>12}{'lines':>7}{'kinds':>7}{'new':>6}{'crashes':>9}"
          f"{'slowest':>10}")  # fmt: skip
    failed = False
    for name in chosen:
        tally = Fuzzer(TARGETS[name], options.seed).run(options.minutes * 60)
        _print(tally, options.minutes * 60)
        failed |= bool(tally.crashes)
        _save(tally, with_new=options.keep)
    return int(failed)


def _print(tally: Tally, seconds: float) -> None:
    rate = round(tally.executions / max(seconds, 0.001))
    print(f"{tally.target.name:<20}{tally.executions:>11}{rate:>12}{tally.lines:>7}{tally.kinds:>7}"
          f"{len(tally.fresh):>6}{len(tally.crashes):>9}{tally.slowest * 1000:>7.0f} ms", flush=True)  # fmt: skip
    for where, (data, trace) in tally.crashes.items():
        print(f"  {where}\n    input: {data[:300]!r}\n" + "".join(f"    {line}\n" for line in trace.splitlines()[-14:]))
    if tally.slowest > 0.5:
        print(f"  slowest input: {tally.slowest_input[:300]!r}")


def _save(tally: Tally, *, with_new: bool) -> None:
    """Crashes in any case, as small as they can be made."""
    target = tally.target
    known = corpus_of(target)
    found = [each.data for each in known if each.kind == "found"]
    if with_new:
        seeds = {each.data for each in known if each.kind == "seed"}
        found = [each for each in distilled(target, {*found, *tally.fresh, *seeds}) if each not in seeds]
    crashes = {each.data for each in known if each.kind == "crash"}
    crashes |= {smaller(target, data, crashes_at(target, where)) for where, (data, _) in tally.crashes.items()}
    if with_new or tally.crashes:
        keep(target, [*(Entry("crash", each) for each in crashes), *(Entry("found", each) for each in found)])


if __name__ == "__main__":
    sys.exit(main())
