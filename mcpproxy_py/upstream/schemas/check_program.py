"""The program that holds arguments against a schema, where that could take long: a process of its own, which can be
ended in the middle of it. One line in, one line out; the parent ends it when it has no more use for it.

It also ends itself: by the kernel, when a check has used its time, even in the midst of a pattern. So nothing is left
running when the gateway was killed. It imports nothing of the package, so that it starts fast.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from typing import Any, Final, NoReturn

import jsonschema_rs

SECONDS: Final = 0.5
"""Of processor time for one check, to be compiled included."""
MEMORY: Final = 1 << 30
KEPT: Final = 16
SHOWN: Final = 300
UNLIMITED: Final = 1 << 62
"""Backtracks: here it is time that ends a pattern, so none gives up and calls it no match."""
STACK_HOLDS: Final = 50_000
"""Characters of a text for which the engine's own stack is enough."""


def refuse_to_fetch(uri: str) -> NoReturn:
    """A `$ref` to a URL or a file would make a listing into a request from inside."""
    raise ValueError(f"references outside the schema are not fetched: {uri[:100]}")


def sentence(validator: jsonschema_rs.Validator, args: Any) -> str | None:
    """The first thing wrong, without its value: a message may reach a log, and arguments can be secrets."""
    try:
        validator.validate(args)
    except jsonschema_rs.ValidationError as error:
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
        return f"{where.lstrip('.')[:SHOWN] or 'arguments'}: {short(error.message)}"
    return None


def short(error: object) -> str:
    # The message of a validation error goes on for pages with the schema; its first line says what is wrong.
    text = str(error).strip().partition("\n")[0]
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def validator_of(schema: Any, patterns: Any) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(schema, retriever=refuse_to_fetch, mask="the value", pattern_options=patterns)


def gives_up(pattern: jsonschema_rs.Validator, text: str) -> bool:
    """Whether the engine ends without an answer, which a schema takes for no match."""
    if pattern.is_valid(text):
        return False
    try:
        pattern.validate(text)
    except jsonschema_rs.ValidationError as error:
        kinds = jsonschema_rs.ValidationErrorKind
        return isinstance(error.kind, kinds.BacktrackLimitExceeded | kinds.RegexEngineFailure)
    return False


class _Checks:
    """The schemas it knows, compiled; the longest unused go first."""

    def __init__(self) -> None:
        self._known: dict[str, jsonschema_rs.Validator] = {}

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            validator, args = self._compiled(asked["schema"]), asked["args"]
            fits = validator.is_valid(args)
            if _some_give_up(asked["patterns"], args):
                return {"cannot": "a pattern gives up on one of them"}
            return {"wrong": None if fits else sentence(validator, args)}
        except Exception as error:
            return {"cannot": short(error)}

    def _compiled(self, schema: str) -> jsonschema_rs.Validator:
        found = self._known.pop(schema, None) or validator_of(json.loads(schema), _ANY)
        self._known[schema] = found
        while len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        return found


_ANY: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=UNLIMITED)


def _some_give_up(patterns: list[str], args: Any) -> bool:
    long = [text for text in texts(args) if len(text) > STACK_HOLDS] if patterns else []
    if not long:
        return False
    each = [validator_of({"pattern": pattern}, _ANY) for pattern in patterns]
    return any(gives_up(pattern, text) for pattern in each for text in long)


def texts(args: Any) -> list[str]:
    """Every text in it, names of properties included."""
    found: list[str] = []
    waiting = [args]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, dict):
            found.extend(item)
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return found


def main() -> None:
    _bound()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    checks = _Checks()
    print("{}", flush=True)
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # whose signal ends a process that takes no notice of it
        answer = json.dumps(checks.answer(asked))
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(answer, flush=True)


def _bound() -> None:
    """What hostile input may take: no core file, a gigabyte, and the processor when nobody else wants it."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        for limit, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_AS, MEMORY)):
            resource.setrlimit(limit, (most, most))
    with contextlib.suppress(OSError):
        os.nice(5)


if __name__ == "__main__":
    main()
