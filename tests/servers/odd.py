"""`plain.py` with what makes names collide and schemas awkward, and with prompts and resources of its own.

    python odd.py --name NAME [the options of plain.py]

Two of them, under different names, have the same tools. A resource says whose it is.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from plain import Plain, error, options, result, schema, serve, text, tool

READS = {"readOnlyHint": True}
LONG = "a_tool_" + "whose_name_goes_on_" * 3 + "and_on"
"""With the name of its server before it, longer than 64."""
TOOLS = [
    tool(LONG, "Has a long name.", READS),
    tool(f"{LONG}_and_on", "Has the same beginning.", READS),
    tool("größe/α β", "Has a name that MCP does not allow.", READS),
    tool("_led", "Begins with an underscore.", READS),
    tool("in__two", "Holds the separator.", READS),
    {
        **tool("strict", "Takes nothing but a text.", READS),
        "inputSchema": {**schema(text="string"), "required": ["text"], "additionalProperties": False},
        "outputSchema": {"type": "object", "properties": {"args": {"type": "object"}}, "required": ["args"]},
    },
    tool("own_intent", "Has an intent of its own.", READS, intent="integer"),
    tool("forbidden", "Is on a list of the operator's.", READS),
    tool("link", "Names a resource of its server.", READS, uri="string"),
]


class Odd(Plain):
    def __init__(self, name: str, log: str | None) -> None:
        super().__init__(log)
        self.name = name
        self.tools = [*self.tools, *TOOLS]

    def handle(self, message: dict[str, Any], send: Any, raw: Any) -> None:
        method, params = message.get("method", ""), message.get("params") or {}
        answer = getattr(self, "_on_" + method.replace("/", "_"), None)
        if answer is None or message.get("id") is None:
            return super().handle(message, send, raw)
        send(answer(message["id"], params))

    def _welcome(self, params: dict[str, Any]) -> dict[str, Any]:
        more = {"prompts": {}, "resources": {}}
        welcome = super()._welcome(params)
        return {**welcome, "capabilities": {**welcome["capabilities"], **more}}

    def _on_prompts_list(self, request_id: Any, params: Any) -> Any:
        return result(request_id, {"prompts": [{"name": "greet", "description": f"Greets from {self.name}."}]})

    def _on_prompts_get(self, request_id: Any, params: Any) -> Any:
        if params.get("name") != "greet":
            return error(request_id, -32602, "no such prompt")
        link = {"type": "resource_link", "uri": f"odd://{self.name}/prompted", "name": "prompted"}
        words = {"type": "text", "text": f"Greetings from {self.name}."}
        return result(request_id, {"messages": [{"role": "user", "content": each} for each in (words, link)]})

    def _on_resources_list(self, request_id: Any, params: Any) -> Any:
        return result(request_id, {"resources": [{"uri": f"odd://{self.name}/listed", "name": "listed"}]})

    def _on_resources_templates_list(self, request_id: Any, params: Any) -> Any:
        return result(request_id, {"resourceTemplates": [{"uriTemplate": f"odd://{self.name}/{{x}}", "name": "any"}]})

    def _on_resources_read(self, request_id: Any, params: Any) -> Any:
        uri = params["uri"]
        return result(request_id, {"contents": [{"uri": uri, "mimeType": "text/plain", "text": f"{self.name}: {uri}"}]})

    def _do_link(self, request_id: Any, params: Any, args: Any, send: Any, raw: Any) -> None:
        uri = args.get("uri", f"odd://{self.name}/linked")
        kept = {"type": "resource", "resource": {"uri": f"{uri}/kept", "text": "kept"}}
        send(result(request_id, {**text("see"), "content": [{"type": "resource_link", "uri": uri, "name": "x"}, kept]}))


if __name__ == "__main__":
    parser = options()
    parser.add_argument("--name", required=True)
    found = parser.parse_args()
    serve(Odd(found.name, found.log))
