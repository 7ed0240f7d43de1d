"""`mcpproxy stdio`: a client's pipes, joined to the one gateway of its data directory (SURF-5), and joined again to the
next one when that gateway ends (USE-7).

One thread reads the client and writes to the gateway, the main one reads the gateway and writes to the client. Between
two gateways the client's lines wait; when there is one again, a third thread writes these, so that nobody waits for
somebody who waits for them.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, Final

from mcpproxy_py.cli.stdio.attach import NotAttached, SomebodyElse, attached, connect, hello, start_and_connect
from mcpproxy_py.cli.stdio.conversation import ClientLine, Conversation, OtherGateway, not_sent, read_line
from mcpproxy_py.cli.stdio.pipes import (
    CHUNK,
    ClientGone,
    LineStream,
    answer_to,
    complain,
    refuse_everything,
    sent,
    write_if_read,
    write_out,
)
from mcpproxy_py.cli.stdio.profiles import ClientProfiles
from mcpproxy_py.cli.stdio.project import ProjectError, profiles_here
from mcpproxy_py.errors import EXIT_FAILED, EXIT_OK, EXIT_UNREACHABLE

MOST_WAITING: Final = 32 << 20
"""Bytes of lines that wait for a gateway. Beyond that, the client waits with the next."""
PATIENCE: Final = 60.0
"""Seconds for which a request waits for a gateway."""
REPLAY_TIMEOUT: Final = 30.0
LEAVE_TO_OTHERS, LEAVE_TO_DETACHED = 10.0, 2.0
"""Seconds in which somebody else may start the gateway again, before a request that waits has us start one. One that a
person or a service started is theirs to restart, and ours would take its place."""
FIRST_PAUSE: Final = 0.02
LONGEST_PAUSE: Final = 1.0
SHORT_LIFE: Final = 5.0
"""A gateway that ends so soon is not attached to at once again."""
MOST_REFUSALS: Final = 5


class HungUp(Exception):
    """The gateway still runs, and wants no more of this client."""


def run(
    data_dir: Path, *, surface: str = "gate", server: str | None = None, profile: str | None = None,
    config: Path | None = None, token_file: Path | None = None,
) -> int:  # fmt: skip
    """Join stdin and stdout to the gateway until the client ends. Returns the exit status."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    profiles = ClientProfiles([] if profile is None else [profile])
    wish = {"surface": surface, "server": server, "token_file": None if token_file is None else str(token_file)}
    bridge = StdioBridge(data_dir, wish, config, profiles)
    try:
        profiles.add(profiles_here())
        joined = attached(data_dir, config, bridge.greet)
        if joined is None:
            complain(f"no gateway could be started; see {data_dir / 'gateway.log'}")
            return EXIT_UNREACHABLE
    except ProjectError as wrong:
        return refuse_everything(str(wrong))
    except NotAttached as found:
        return refuse_everything(str(found)) if profiles.names else _told(str(found))
    except SomebodyElse as found:
        return _told(str(found))
    except OSError as error:
        complain(f"{error.filename} cannot be used: {error.strerror}" if error.filename else str(error))
        return EXIT_FAILED
    return bridge.run(joined)


def _told(why: str) -> int:
    complain(why)
    return EXIT_FAILED


class StdioBridge:
    def __init__(
        self, data_dir: Path, wish: dict[str, Any], config: Path | None, profiles: ClientProfiles | None = None
    ) -> None:
        self._profiles = ClientProfiles([]) if profiles is None else profiles
        self._refused: str | None = None
        """Why nothing of the client's is sent any more: what narrows it cannot be told."""
        self._data_dir = data_dir
        self._config = config
        self._ending_said = b'{"ending":"%s"}' % (told := secrets.token_hex(16)).encode()
        """The line by which a gateway says that it ends. Nobody behind it can make it up."""
        self._wish = {**wish, "ending": told}
        self._conversation = Conversation()
        self._changed = threading.Condition()
        """Holds all below: the conversation, what waits, and where lines go."""
        self._gateway: socket.socket | None = None
        self._open: socket.socket | None = None
        """The one attached to, and the same once the client's lines may go there."""
        self._ending = False
        """It takes no new calls any more."""
        self._waiting: deque[ClientLine] = deque()
        self._waiting_bytes = 0
        self._hung_up = False
        self._run: object = None
        self._left_early = False
        """Of which run of a gateway it is, and whether that closed the connection without having said that it ends."""
        self._detached = False
        """Whether it was started by one of us, and not by a person or a service."""

    def greet(self, joined: socket.socket) -> None:
        """Say what we want. Raises `NotAttached`, `HungUp` and `OSError`."""
        with self._changed:
            wish = {**self._wish, **self._profiles.wish}
        answer = hello(joined, wish)
        if (run := answer.get("run")) == self._run and run is not None:
            if self._left_early:
                raise HungUp("the gateway closed the connection, for what came over it or how slowly it was read")
            raise ConnectionResetError("it ends, and has not ended yet")
        self._run, self._detached = run, answer.get("detached") is True
        self._profiles.attached(answer)

    def run(self, joined: socket.socket) -> int:
        self._gateway = self._open = joined
        threading.Thread(target=self._read_client, daemon=True).start()
        lines = LineStream(lambda: joined.recv(CHUNK))
        short_lives = 0
        while True:
            attached_at = time.monotonic()
            try:
                self._read_gateway(lines)
                if self._cut():
                    return EXIT_OK
                if self._refused is not None:
                    return EXIT_FAILED
                lived = time.monotonic() - attached_at
                short_lives = short_lives + 1 if lived < SHORT_LIFE else 0
                complain("the gateway ended; waiting for it to run again")
                found = self._attached_again(min(LONGEST_PAUSE, FIRST_PAUSE * 2**short_lives))
            except ClientGone:
                return EXIT_OK
            except (SomebodyElse, NotAttached, OtherGateway, HungUp) as why:
                complain(str(why))
                with contextlib.suppress(ClientGone):
                    self._fail_waiting(str(why), everything=True)
                return EXIT_FAILED
            if found is None:
                return EXIT_OK
            lines = found
            complain("attached to the gateway again")

    # The client's lines.

    def _read_client(self) -> None:
        lines = LineStream(lambda: os.read(0, CHUNK))
        try:
            while several := lines.read():
                for line in several:
                    if line and not line.isspace():
                        self._forward(read_line(line + b"\n", time.monotonic()))
        except OSError as error:
            complain(str(error))
        with self._changed:
            self._hung_up = True
            gateway = self._gateway
            self._changed.notify_all()
        if gateway is not None:
            with contextlib.suppress(OSError):
                gateway.shutdown(socket.SHUT_WR)

    def _forward(self, line: ClientLine) -> None:
        if self._profiles.is_answer(line):
            return self._narrow(line)
        if self._refused is not None:
            return write_out(not_sent(line, self._refused)) if line.is_request else None
        if (question := self._profiles.question(line)) is not None:
            # In a thread: whoever reads the client must never wait for the client to read.
            threading.Thread(target=write_if_read, args=(question,), daemon=True).start()
        with self._changed:
            gateway = self._open
            if (gateway is None or self._ending) and self._kept(line, gateway):
                return
            if not self._conversation.may_send(line):
                return
            self._conversation.sending(line)
        assert gateway is not None
        if not sent(gateway, line.line):
            with self._changed:
                self._take_back(line, gateway)

    def _narrow(self, line: ClientLine) -> None:
        """The client has told where it works. What it sends next goes to the gateway after the profiles of that."""
        said = b""
        with self._changed:
            gateway = self._open
            try:
                self._profiles.add_roots(line)
                if self._gateway is not None:  # else it is told with the first line, or when it has answered that
                    said = self._profiles.told_next()
            except (ProjectError, NotAttached) as wrong:
                self._refused = str(wrong)
                said = self._profiles.nothing
            if gateway is None and self._gateway is not None and said:
                self._waiting.appendleft(read_line(said))
                self._waiting_bytes += len(said)
        if self._refused is not None:
            complain(self._refused)
        if gateway is not None and said:
            sent(gateway, said)  # a gateway that ends is not told; the next one is told at the start

    def _kept(self, line: ClientLine, gateway: socket.socket | None) -> bool:
        """Whether it waits for the next gateway, or is of no use there. Called with the lock."""
        cancelled = line.cancels
        if cancelled is not None:
            waits = next((each for each in self._waiting if each.is_request and each.id == cancelled), None)
            if waits is not None:
                self._drop(waits)
            return self._conversation.stops_listening(cancelled) or waits is not None or gateway is None
        if gateway is not None and not line.is_request:
            return False  # an answer, say, for a call that ends in peace
        if line.is_answer:
            return True  # and nobody waits for it any more
        while self._waiting_bytes > MOST_WAITING and self._open is None:
            self._changed.wait()
        self._waiting.append(line)
        self._waiting_bytes += len(line.line)
        self._changed.notify_all()
        return True

    def _drop(self, line: ClientLine) -> None:
        self._waiting.remove(line)
        self._waiting_bytes -= len(line.line)
        self._changed.notify_all()

    def _take_back(self, line: ClientLine, gateway: socket.socket) -> None:
        """Nothing of it left: the gateway had ended. Called with the lock."""
        if self._open is gateway:
            self._open = None
        if self._conversation.not_sent(line):
            self._waiting.appendleft(line)
            self._waiting_bytes += len(line.line)
            self._changed.notify_all()

    def _send_waiting(self, gateway: socket.socket) -> None:
        """In order, and then the client's lines go straight there."""
        while True:
            with self._changed:
                if self._gateway is not gateway:
                    return
                if not self._waiting:
                    self._open = gateway
                    self._changed.notify_all()
                    return
                line = self._waiting[0]
                self._drop(line)
                if not self._conversation.may_send(line):
                    continue
                self._conversation.sending(line)
            if not sent(gateway, line.line):
                with self._changed:
                    self._take_back(line, gateway)
                return

    # The gateway's lines.

    def _read_gateway(self, lines: LineStream) -> None:
        """Until it ends. Raises `ClientGone` when the client does."""
        while True:
            try:
                several = lines.read()
            except OSError:
                return
            if not several:
                return
            with self._changed:
                told = [each for line in several for each in self._heard(line)]
            write_out(b"".join(told))

    def _heard(self, line: bytes) -> list[bytes]:
        if line == self._ending_said:
            self._ending = True
            return []
        if line.startswith(self._profiles.narrowed):
            if (why := self._profiles.refused(line)) is not None and self._refused is None:
                self._refused = why
                complain(why)
            return []
        return self._conversation.heard(line + b"\n")

    def _cut(self) -> bool:
        """The gateway has ended: tell the client what that means. Whether the client has ended too."""
        with self._changed:
            if self._gateway is not None:
                self._gateway.close()
            self._gateway = self._open = None
            self._left_early, self._ending = not self._ending, False
            told, again = self._conversation.cut()
            now = time.monotonic()
            for line in reversed(again):
                line.since = now
                self._waiting.appendleft(line)
                self._waiting_bytes += len(line.line)
            hung_up = self._hung_up
        if not hung_up:
            write_out(b"".join(told))
        return hung_up

    # From one gateway to the next.

    def _attached_again(self, pause: float) -> LineStream | None:
        """None where the client has gone. Raises `SomebodyElse`, `NotAttached` and `OtherGateway`."""
        ended, refusals = time.monotonic(), 0
        leave = LEAVE_TO_DETACHED if self._detached else LEAVE_TO_OTHERS
        why = "The gateway has ended and does not run again yet"
        not_before = ended + leave
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._hung_up, pause)
                if self._hung_up:
                    return None
                wanted = any(line.is_request for line in self._waiting)
            pause = min(LONGEST_PAUSE, pause * 1.5)
            joined: socket.socket | None = None
            try:
                joined = connect(self._data_dir)
                if joined is None and wanted and time.monotonic() >= not_before:
                    joined = start_and_connect(self._data_dir, self._config)
                    if joined is None:
                        not_before = time.monotonic() + leave
                        why = f"No gateway could be started; see {self._data_dir / 'gateway.log'}"
                if joined is not None:
                    return self._resumed(joined)
            except NotAttached as refused:
                refusals += 1
                why = f"The gateway says: {refused}"
                if refusals >= MOST_REFUSALS:
                    raise
            except OSError as error:  # it ended once more
                why = f"The gateway cannot be reached: {error}"
            except BaseException:
                if joined is not None:
                    joined.close()
                raise
            if joined is not None:
                joined.close()
            self._fail_waiting(why)

    def _resumed(self, joined: socket.socket) -> LineStream:
        """The handshake once more, then what waited. Raises `NotAttached`, `OtherGateway` and `OSError`."""
        self.greet(joined)
        joined.settimeout(REPLAY_TIMEOUT)
        lines = LineStream(lambda: joined.recv(CHUNK))
        with self._changed:
            greeting = self._conversation.greeting()
        news: list[bytes] = []
        if greeting is not None:
            joined.sendall(greeting[0])
            answer, others = answer_to(greeting[1], lines)
            with self._changed:
                news = self._conversation.welcomed(answer)
                news += [each for line in others for each in self._conversation.heard(line + b"\n")]
        with self._changed:
            resumption = [self._profiles.told_next(), *self._conversation.resumption()]
            self._gateway = joined
            if self._hung_up:
                joined.shutdown(socket.SHUT_WR)
        joined.settimeout(None)
        threading.Thread(target=self._resume, args=(joined, b"".join(resumption)), daemon=True).start()
        write_out(b"".join(news))
        return lines

    def _resume(self, gateway: socket.socket, first: bytes) -> None:
        with contextlib.suppress(OSError):  # whoever reads there finds out as well
            gateway.sendall(first)
            self._send_waiting(gateway)

    def _fail_waiting(self, why: str, *, everything: bool = False) -> None:
        """Requests that have waited for long enough."""
        told: list[bytes] = []
        with self._changed:
            before = time.monotonic() - PATIENCE
            for line in [each for each in self._waiting if everything or each.since <= before]:
                self._drop(line)
                if line.is_request:
                    told.append(not_sent(line, why))
        write_out(b"".join(told))
