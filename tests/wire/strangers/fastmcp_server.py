"""A server made with FastMCP 4, run by the Python that `requirements.txt` is installed for: one tool of each kind.

python fastmcp_server.py [--tasks] [--http PORT]
"""

import argparse
import asyncio

from fastmcp import Context, FastMCP
from fastmcp.tools import ToolResult
from fastmcp.utilities.tasks import TaskConfig
from mcp.types import SamplingMessage, TextContent

parser = argparse.ArgumentParser()
parser.add_argument("--tasks", action="store_true")
parser.add_argument("--http", type=int)
args = parser.parse_args()
mcp = FastMCP("strange")


@mcp.tool
async def echo(text: str) -> ToolResult:
    return ToolResult(content=[TextContent(type="text", text=text)])


@mcp.tool
async def fail() -> str:
    raise ValueError("it broke")


@mcp.tool
async def structured(number: int) -> dict[str, int]:
    return {"number": number}


@mcp.tool
async def progress(ctx: Context) -> str:
    for step in range(3):
        await ctx.report_progress(step, 3)
    return "done"


@mcp.tool
async def log(ctx: Context) -> str:
    await ctx.info("a line")
    return "logged"


@mcp.tool
async def elicit_form(ctx: Context) -> str:
    answer = await ctx.elicit("What is your name?", response_type=str)
    return str(answer)


@mcp.tool
async def elicit_url(ctx: Context) -> str:
    answer = await ctx.session.elicit_url("Log in there", "https://example.com/login", "one")
    return answer.action


@mcp.tool
async def sample(ctx: Context) -> str:
    message = SamplingMessage(role="user", content=TextContent(type="text", text="hello"))
    answer = await ctx.session.create_message([message], max_tokens=10)
    return str(answer.content)


@mcp.tool
async def roots(ctx: Context) -> str:
    return ",".join(str(root.uri) for root in await ctx.list_roots())


@mcp.tool
async def slow(ctx: Context) -> str:
    await ctx.info("it has begun")
    await ctx.report_progress(0, 1)
    await asyncio.sleep(600)
    return "never"


@mcp.tool
async def grow(ctx: Context) -> str:
    await ctx.session.send_resource_list_changed()
    await ctx.session.send_prompt_list_changed()
    return "grown"


@mcp.resource("note://one")
def one() -> str:
    return "the first note"


@mcp.resource("note://by/{name}")
def by(name: str) -> str:
    return f"the note {name}"


@mcp.prompt
def greet(name: str) -> str:
    return f"Say hello to {name}"


if args.tasks:
    from fastmcp_tasks import TasksExtension

    mcp.add_extension(TasksExtension(url="memory://"))

    @mcp.tool(task=TaskConfig(mode="optional"))
    async def crunch(number: int) -> str:
        return f"crunched {number}"

    @mcp.tool(task=TaskConfig(mode="required"))
    async def crunch_later(number: int) -> str:
        return f"crunched {number} later"


if args.http is not None:
    mcp.run(transport="http", host="127.0.0.1", port=args.http, show_banner=False)
else:
    mcp.run(show_banner=False)
