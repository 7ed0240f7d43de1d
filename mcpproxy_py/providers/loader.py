"""Finding the providers of the operator's own: by entry point, or by `module:object` (PROV-5)."""

from __future__ import annotations

import importlib
import inspect
import logging
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

from mcpproxy_py.providers.spec import HasTools, ProviderError, low_level_server
from mcpproxy_py.providers.upstream import ProviderUpstream

log = logging.getLogger(__name__)

GROUP: Final = "mcpproxy.providers"


def installed() -> dict[str, str]:
    """What packages in this environment offer: name to `module:object`. Imports none of them."""
    return {point.name: point.value for point in entry_points(group=GROUP)}


class Loader:
    """Providers by name, each made once: one that stays configured keeps what it remembers through a reload."""

    def __init__(self, directory: Path, *, max_result_bytes: int) -> None:
        """`directory` is where modules are looked for last, beside Python's own path."""
        self._directory = str(directory)
        self._most = max_result_bytes
        self._served: dict[tuple[str, str], ProviderUpstream] = {}

    def served(self, wanted: Mapping[str, str]) -> dict[str, ProviderUpstream]:
        """An upstream for each name and its `module:object`. Imports nothing yet."""
        self._served = {key: self._served.get(key) or self._new(*key) for key in wanted.items()}
        return {name: served for (name, _), served in self._served.items()}

    def _new(self, name: str, target: str) -> ProviderUpstream:
        return ProviderUpstream(name, lambda: self._load(target), max_result_bytes=self._most)

    def _load(self, target: str) -> HasTools:
        if self._directory not in sys.path:
            sys.path.append(self._directory)  # at the end: a file there must not stand in for an installed module
        return load(target)


def load(target: str) -> HasTools:
    """The provider that `module:object` names: an object with `tools`, a server object of the `mcp` package
    (`MCPServer` or `Server`), or a class or function that gives one. Raises `ProviderError`, and whatever the module
    raises."""
    module, _, path = target.partition(":")
    if not path:
        raise ProviderError("no package installed here offers a provider of this name; give its `module:object`")
    importlib.invalidate_caches()  # the file may have been written since the last attempt
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the module is there, and something it imports is not
        raise ProviderError(
            f"there is no module {module!r} on Python's path or beside the configuration file"
        ) from None
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ProviderError(f"the module {module!r} has no {path!r}") from None
    is_maker = inspect.isclass(found) or not hasattr(found, "tools")
    provider: Any = found() if is_maker and callable(found) else found
    if not callable(getattr(provider, "tools", None)) and low_level_server(provider) is None:
        raise ProviderError(
            f"{target!r} is not a provider: it has no method `tools`, and is no server object of the mcp package"
        )
    return provider
