"""The profile that a project names in `.mcpproxy.json` (SURF-12).

Only a name is read from it, and a profile only narrows, so a repository cannot grant itself anything. A file that is
wrong leaves nothing in scope, since a person who narrows a project counts on it. No file is no profile.

The standard library only: an IDE waits for `mcpproxy stdio`.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

FILE: Final = ".mcpproxy.json"
LARGEST: Final = 4096
DEEPEST: Final = 64
"""Directories that are looked at on the way up."""
MOST_ROOTS: Final = 64
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


class ProjectError(Exception):
    """What is wrong with a project's file, as a sentence with the next step."""


def profiles_around(directory: Path) -> list[str]:
    """The profiles that are named on the way from this directory up to the root of its project; all of them apply, so
    that a directory inside a project cannot take back what the project says. Raises `ProjectError`."""
    return _names(_up(directory))


def profiles_here() -> list[str]:
    """The same for the current directory, as long as it exists."""
    try:
        return profiles_around(Path(os.getcwd()))
    except FileNotFoundError:
        return []


def profiles_at(roots: Iterable[str]) -> list[str]:
    """The same for the roots that a client has told. What is no directory here is nobody's project."""
    directories = [path for each in list(roots)[:MOST_ROOTS] if (path := _path(each)) is not None]
    return _names(above for directory in directories for above in _up(directory))


def _names(directories: Iterable[Path]) -> list[str]:
    found = (profile_named_in(each) for each in dict.fromkeys(directories))
    return list(dict.fromkeys(name for name in found if name is not None))


def _path(uri: str) -> Path | None:
    from urllib.parse import unquote, urlsplit

    try:
        parts = urlsplit(uri)
        path = Path(unquote(parts.path))
        if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not path.is_absolute():
            return None
        return path.resolve() if path.is_dir() else None
    except (ValueError, OSError, RuntimeError):
        return None


def _up(directory: Path) -> Iterator[Path]:
    """To the root of the repository. Without one: to the directory below home; elsewhere it is this directory alone,
    since anybody may write to one above, such as /tmp. The home directory itself is no project."""
    home = _home()
    above = [directory, *directory.parents][:DEEPEST]
    if home is not None and home in above:
        above = above[: above.index(home)]
    root = next((number for number, each in enumerate(above) if os.path.lexists(each / ".git")), None)
    if root is not None:
        yield from above[: root + 1]
    elif home is not None and home in directory.parents:
        yield from above
    else:
        yield from above[:1]


def _home() -> Path | None:
    try:
        return Path.home().resolve()
    except (RuntimeError, OSError):
        return None


def profile_named_in(directory: Path) -> str | None:
    """The profile that the file in this directory names; `None` where there is none. Raises `ProjectError`."""
    path = directory / FILE
    try:
        text = _read(directory)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror}") from None
    if text is None:
        raise _wrong(path, "is no regular file; a link could lead out of the project")
    if len(text) > LARGEST:
        raise _wrong(path, f"is larger than {LARGEST} bytes; it holds one name")
    try:
        said = json.loads(text.decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise _wrong(path, f"is not valid JSON ({error})") from None
    if not isinstance(said, dict):
        raise _wrong(path, "holds no object")
    if strange := sorted(said.keys() - {"profile"}):
        raise _wrong(path, f"has a key that is not known, {json.dumps(strange[0][:40])}; it holds only `profile`")
    name = said.get("profile")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _wrong(path, "names no profile; a name has 1 to 32 of `a-z 0-9 _ -`")
    return name


def _read(directory: Path) -> bytes | None:
    """At most a byte more than there may be; `None` for what is no regular file. A link is not followed, and what is
    opened is what is looked at: nobody can put another file in its place in between."""
    holder = os.open(directory, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if stat.S_ISLNK(os.stat(FILE, dir_fd=holder, follow_symlinks=False).st_mode):
            return None
        descriptor = os.open(FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=holder)
    finally:
        os.close(holder)
    try:
        return os.read(descriptor, LARGEST + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    finally:
        os.close(descriptor)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def _wrong(path: Path, what: str) -> ProjectError:
    return ProjectError(
        f'{path} {what}. Until that is put right nothing can be reached from here: write {{"profile": "NAME"}} into it '
        "(`mcpproxy profiles list` has the names), or remove it"
    )
