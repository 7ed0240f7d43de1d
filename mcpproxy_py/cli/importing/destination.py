"""Where imported servers go: to the running gateway, or to the configuration file where none runs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from mcpproxy_py.cli.common import CommandContext
from mcpproxy_py.cli.gateway.locate import NoGatewayError
from mcpproxy_py.cli.importing.plan import PresentServers
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.settings.config_file import ConfigFile

_NOTHING: Final = (None, {}, [], (), "")
_STANDARD_URL: Final = "http://127.0.0.1:8080"


class ImportDestination:
    """The servers that are configured now, and how to change them. A gateway that was named must be there."""

    def __init__(self, session: CommandContext) -> None:
        self._session = session
        self.path: Path = session.where.config_path()
        self.home: Path = session.where.home()
        self._file = ConfigFile(self.path, mends=True)
        self._shown = self._asked()

    @property
    def is_running(self) -> bool:
        return self._shown is not None

    def _asked(self) -> Mapping[str, Any] | None:
        try:
            return self._session.client.get("config")
        except GatewayError as error:
            # What a configuration lacks is asked only where no gateway has said that it runs.
            none_runs = isinstance(error, NoGatewayError) or error.code is Code.CONFIG_INVALID
            if self._session.where.is_named or not none_runs:
                raise
            return None

    def present(self) -> PresentServers:
        document = self._document()
        shown = document.get("mcpServers")
        servers = {
            str(name): {key: value for key, value in config.items() if value not in _NOTHING}
            for name, config in (shown.items() if isinstance(shown, Mapping) else ())
            if isinstance(config, Mapping)
        }
        providers = document.get("providers")
        names = {str(name) for name in providers} if isinstance(providers, Mapping) else set[str]()
        return PresentServers(servers, names, self._urls(document))

    def _document(self) -> Mapping[str, Any]:
        if self._shown is not None:
            return self._shown
        return {"mcpServers": self._file.servers(), "providers": self._file.providers()}

    def _urls(self, document: Mapping[str, Any]) -> list[str]:
        urls = [_STANDARD_URL] if not self.is_running else []
        with suppress(GatewayError):  # a configuration that cannot be read says so when it is changed
            urls.append(self._session.where.url())
        listen = document.get("listen")
        return [*urls, listen] if isinstance(listen, str) else urls

    def written(self) -> dict[str, dict[str, Any]]:
        """The servers as they stand in the file, for undoing; empty where it is not there."""
        try:
            return self._file.servers()
        except GatewayError:
            return {}

    def change(self, entries: Mapping[str, Mapping[str, Any] | None], replace: frozenset[str]) -> dict[str, str]:
        """Adds, replaces, and with `None` removes. The answer is what went wrong, by name."""
        if self.is_running:
            return self._by_gateway(entries, replace)
        try:
            self._file.change_servers(entries, replace=replace)
            return {}
        except GatewayError as error:
            if len(entries) == 1:
                return dict.fromkeys(entries, error.message)
        wrong: dict[str, str] = {}
        for name, config in entries.items():
            try:
                self._file.change_servers({name: config}, replace=replace)
            except GatewayError as error:
                wrong[name] = error.message
        return wrong

    def _by_gateway(self, entries: Mapping[str, Mapping[str, Any] | None], replace: frozenset[str]) -> dict[str, str]:
        wrong: dict[str, str] = {}
        for name, config in entries.items():
            try:
                if config is None:
                    self._session.client.delete("servers", name)
                else:
                    # A secret that is missing fails that server alone, and the plan has said so.
                    body = {"name": name, "config": dict(config), "check": False}
                    extra = {"replace": True} if name in replace else {}
                    self._session.client.post("servers", body={**body, **extra})
            except GatewayError as error:
                wrong[name] = error.message
        return wrong
