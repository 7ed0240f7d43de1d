"""`mcpproxy doctor`: what keeps a gateway from working, and how to mend it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mcpproxy_py import __version__
from mcpproxy_py.cli.common import CommandContext, command, group
from mcpproxy_py.cli.gateway.locate import NoGatewayError, announced, is_url
from mcpproxy_py.cli.output import note, table, waiting
from mcpproxy_py.errors import EXIT_FAILED, EXIT_OK, FACTS, Code, GatewayError

if TYPE_CHECKING:
    from mcpproxy_py.doctor import CheckResult

app = group("What is wrong, and how to fix it.")


@command(app, "doctor")
def doctor(session: CommandContext) -> int:
    """Find what is wrong, and say how to fix it.

    Checks the configuration, the data directory, the address, the database, and for each server whether its command
    exists or its address answers. If a gateway is running, checks the state that it reports of itself and its servers.
    Changes nothing and starts nothing. The exit status is 1 if there is a problem.

    For example: mcpproxy doctor
    """
    with waiting("Checking"):
        findings = list(_findings(session))
    healthy = all(finding.state != "problem" for finding in findings)
    session.show({"healthy": healthy, "findings": [finding._asdict() for finding in findings]}, _print)
    return EXIT_OK if healthy else EXIT_FAILED


def _findings(session: CommandContext) -> Iterator[CheckResult]:
    return _elsewhere(session) if is_url(session.where.listen or "") else _here(session)


def _elsewhere(session: CommandContext) -> Iterator[CheckResult]:
    """Of a gateway that is not of the files on this machine, what it finds itself, of its own machine too."""
    from mcpproxy_py.doctor import CheckResult

    try:
        yield from (CheckResult(each["subject"], each["state"], each["says"]) for each in _health(session))
    except GatewayError as error:
        yield _problem(error)


def _here(session: CommandContext) -> Iterator[CheckResult]:
    from mcpproxy_py import doctor
    from mcpproxy_py.doctor import CheckResult

    try:
        loaded = session.where.loaded()
    except GatewayError as error:
        yield CheckResult("configuration", "problem", error.message)
        return
    yield CheckResult("configuration", "ok", str(loaded.path) if loaded.exists else "no file; the defaults apply")
    yield from (CheckResult("configuration", "warning", warning) for warning in loaded.warnings)
    yield from doctor.folder(loaded.settings)
    yield from doctor.identity_provider(loaded.settings)
    # Where it would take any port, the one it took is known by its announcement alone.
    stopped = loaded.settings.address[1] == 0 and announced(loaded.settings.data_dir) is None
    try:
        if not stopped:
            yield from _at_work(session)
            return
    except NoGatewayError:
        stopped = True
    except GatewayError as error:
        yield _problem(error)
    if stopped:
        yield CheckResult("gateway", "ok", "none is running; start it with `mcpproxy serve`")
        yield from doctor.before_start(loaded.settings)
    yield from doctor.within_reach(loaded.settings)


def _at_work(session: CommandContext) -> Iterator[CheckResult]:
    """Raises `GatewayError`, and `NoGatewayError` where there is none."""
    from mcpproxy_py import doctor

    status = session.client.get("status")
    yield from doctor.gateway_at_work(status, __version__)
    yield from doctor.servers_at_work(session.client.get("servers")["servers"])


def _health(session: CommandContext) -> list[dict[str, Any]]:
    """One of an earlier version has no such answer, and is looked at from here."""
    try:
        return session.client.get("health")["findings"]
    except GatewayError as error:
        if error.code is not Code.NOT_FOUND:
            raise
        return [each._asdict() for each in _at_work(session)]


def _problem(error: GatewayError) -> CheckResult:
    from mcpproxy_py.doctor import CheckResult

    return CheckResult("gateway", "problem", f"{error.message}; {_remedy(error)}")


def _remedy(error: GatewayError) -> str:
    if isinstance(error, NoGatewayError):
        return "see that it runs, and that its address is right"
    if error.code is Code.NOT_REACHABLE:
        return "stop what listens there, or choose another address with --listen"
    return FACTS[error.code].hint


def _print(answer: Mapping[str, Any]) -> None:
    rows = [[finding["state"], finding["subject"], finding["says"]] for finding in answer["findings"]]
    table(("", "what", "found"), rows, empty="Nothing was checked.")
    problems = sum(finding["state"] == "problem" for finding in answer["findings"])
    note("Nothing is wrong." if not problems else f"{problems} to mend.")
