"""A server with apps and skills, which says of them what a test wants said.

    python shows.py --log FILE --says FILE [--modern] [--name NAME]

It writes down what it hears. `--says` names a file with an object, which is read anew for each request: `tools` (beside
the one called `play`), `resources` (its list), `contents` (by URI, what is read there), `skills` (its list), `more` (by
URI, skills that are not in it), `directories` (by URI, what is in them), `pages` (how many skills are on a page; 0: all
on one), `endless` (its list of skills never ends), `extensions` (what it declares). What is not there is an error, as
the protocol has it. `play` does what `scripted.py` says of it, and without steps answers at once.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from plain import error
from scripted import PLAY, Scripted, over_stdio

INVALID_PARAMS = -32602
SKILLS = "io.modelcontextprotocol/skills"
UI = "io.modelcontextprotocol/ui"


class Shows(Scripted):
    @property
    def says(self) -> dict[str, Any]:
        return json.loads(Path(self.args.says).read_text())

    def play(self, request_id: str, steps: list[dict[str, str]], own: Any, aside: Any) -> None:
        done = {"content": [{"type": "text", "text": f"done by {self.args.name}"}], "resultType": "complete"}
        said = {"own": json.dumps({"jsonrpc": "2.0", "id": "$id", "result": done}).replace('"$id"', "$id")}
        super().play(request_id, steps or [said], own, aside)

    def answer(self, request_id: Any, method: str, params: dict[str, Any], text: str | None) -> str:
        if method in ("resources/read", "skills/get", "resources/directory/read"):
            if (found := self.found(method, str(params.get("uri")))) is None:
                return json.dumps(error(request_id, INVALID_PARAMS, f"there is no {params.get('uri')} here"))
            text = json.dumps({"resultType": "complete", **found} if self.args.modern else found)
        return super().answer(request_id, method, params, text)

    def found(self, method: str, uri: str) -> dict[str, Any] | None:
        says = self.says
        if method == "resources/read":
            found = says.get("contents", {}).get(uri)
            return None if found is None else {"contents": [{"uri": uri, **found}]}
        if method == "resources/directory/read":
            found = says.get("directories", {}).get(uri)
            return None if found is None else {"resources": found}
        listed = {each["uri"]: each for each in says.get("skills", []) if isinstance(each, dict) and "uri" in each}
        found = {**listed, **says.get("more", {})}.get(uri)
        return None if found is None else {"skill": found}

    def result_of(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        says, result = self.says, super().result_of(method, params)
        if method in ("initialize", "server/discover"):
            declared = says.get("extensions", {SKILLS: {"directoryRead": True}, UI: {}})
            return {**result, "capabilities": {**result["capabilities"], "extensions": declared}}
        if method == "tools/list":
            return {**result, "tools": [PLAY, *says.get("tools", [])]}
        if method == "resources/list":
            return {**result, "resources": says.get("resources", [])}
        return {**result, **self.page(params.get("cursor"))} if method == "skills/list" else result

    def page(self, cursor: str | None) -> dict[str, Any]:
        says = self.says
        skills, many, start = says.get("skills", []), says.get("pages", 0), int(cursor or 0)
        if says.get("endless"):
            return {"skills": skills[:1], "nextCursor": str(start + 1)}
        if not many:
            return {"skills": skills}
        more = {"nextCursor": str(start + many)} if start + many < len(skills) else {}
        return {"skills": skills[start : start + many], **more}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", required=True)
    parser.add_argument("--says", required=True)
    parser.add_argument("--modern", action="store_true")
    parser.add_argument("--name", default="shows")
    over_stdio(Shows(argparse.Namespace(answers=None, **vars(parser.parse_args()))))


if __name__ == "__main__":
    main()
