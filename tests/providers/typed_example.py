"""A provider as its author writes it, with every type that the package exports for that: checked by a type checker."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mcpproxy_py.providers import Accept, Context, Link, Structured, Text, ToolError, ToolProvider, ToolSpec


class Notes(ToolProvider):
    def __init__(self) -> None:
        self._notes: dict[str, str] = {}

    def capabilities(self) -> Collection[str]:
        return ("elicitation",)

    def tools(self) -> Iterable[ToolSpec]:
        yield ToolSpec("read", self.read, annotations={"readOnlyHint": True})
        yield ToolSpec("drop", annotations={"destructiveHint": True})
        yield ToolSpec("where")

    def read(self, title: str) -> Text:
        if title not in self._notes:
            raise ToolError(f"there is no note {title}")
        return Text(self._notes[title])

    async def drop(self, ctx: Context) -> Structured:
        ctx.progress(0, 1)
        answer = await ctx.elicit("Drop all notes?")
        if isinstance(answer, Accept):
            self._notes.clear()
        ctx.log("info", {"left": len(self._notes)})
        return Structured({"left": len(self._notes)})

    def where(self, ctx: Context) -> Link:
        who = ctx.caller.principal if ctx.caller else "nobody"
        return Link(f"note://{who}", name="notes")
