"""The line of a server's output that says why it gave up: not the last one, the one that helps."""

from __future__ import annotations

import pytest

from mcpproxy_py.upstream.processes.last_words import telling

NPM_404 = """\
npm error code E404
npm error 404 Not Found - GET https://registry.npmjs.org/nope-nope - Not found
npm error 404
npm error 404  'nope-nope@*' is not in this registry.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git folder.
npm error A complete log of this run can be found in: /root/.npm/_logs/2026-11-19T20_00_00_000Z-debug-0.log
"""
UVX = """\
  × No solution found when resolving tool dependencies:
  ╰─▶ Because nope-nope was not found in the package registry and you require nope-nope, we can conclude that your
      requirements are unsatisfiable.
"""
PYTHON = """\
INFO starting
Traceback (most recent call last):
  File "/usr/lib/python3.11/runpy.py", line 198, in _run_module_as_main
    return _run_code(code, main_globals, None,
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/x.py", line 3, in <module>
    raise KeyError("error: in the source")
ModuleNotFoundError: No module named 'mcp'
"""
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/srv/x.py", line 3, in <module>
  |     anyio.run(main)
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/srv/x.py", line 9, in main
    |     connect()
    | ValueError: GITHUB_TOKEN is not set
    +------------------------------------
"""
NODE = """\
node:internal/modules/cjs/loader:1228
  throw err;
  ^

Error: Cannot find module '/srv/nope.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)
    at node:internal/main/run_main_module:28:49 {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v22.1.0
"""
OLD_NODE = """\
npm warn EBADENGINE Unsupported engine {
npm warn EBADENGINE   package: 'chrome-devtools-mcp@1.2.3',
npm warn EBADENGINE   required: { node: '^20.19.0 || >=22.12.0' },
npm warn EBADENGINE   current: { node: 'v18.2.0', npm: '9.1.0' }
npm warn EBADENGINE }
file:///root/.npm/_npx/1/node_modules/x/index.js:3
import { styleText } from 'node:util';
         ^^^^^^^^^
SyntaxError: The requested module 'node:util' does not provide an export named 'styleText'
    at ModuleJob._instantiate (node:internal/modules/esm/module_job:180:21)

Node.js v18.2.0
"""
GO = """\
{"level":"fatal","message":"Authentication required: SLACK_MCP_XOXP_TOKEN must be provided","stacktrace":"main"}
node:child_process:930
    throw err;
    ^

Error: Command failed: /root/.npm/_npx/0/node_modules/slack-mcp-server/bin/slack-mcp-server
    at genericNodeError (node:internal/errors:984:15)
  status: 1,
Node.js v20.20.2
"""
OLD_PYTHON = """\
error: No solution found when resolving tool dependencies
  cause: Because x<=0.1.0rc1 depends on Python>=3.12 and
             x>=0.1.1rc1
         Because the current Python version (3.11.7) does not satisfy Python>=3.12 and x==0.1.0 cannot be used.
         And because you require x, we can conclude that your requirements are unsatisfiable.
"""
ZOD = """\
Configuration is wrong
ZodError: [
  {
    "code": "invalid_type",
    "path": ["API_KEY"],
    "message": "Required"
  }
]
    at get error (/srv/zod.js:1:1)
"""


@pytest.mark.proves("USE-6")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        (NPM_404, "npm error 404 'nope-nope@*' is not in this registry."),
        (UVX, "╰─▶ Because nope-nope was not found in the package registry and you require nope-nope, we can conclude "
              "that your"),
        (PYTHON, "ModuleNotFoundError: No module named 'mcp'"),
        (GROUP, "ValueError: GITHUB_TOKEN is not set"),
        (NODE, "Error: Cannot find module '/srv/nope.js'"),
        (OLD_NODE, "SyntaxError: The requested module 'node:util' does not provide an export named 'styleText' (npm "
                   "warns that the package requires { node: '^20.19.0 || >=22.12.0' })"),
        (ZOD, 'ZodError: [ { "code": "invalid_type", "path": ["API_KEY"], "message": "Required"'),
        ("chrome-devtools-mcp requires Node 22\nexiting\n", "chrome-devtools-mcp requires Node 22"),
        ("sh: 1: mcp-server-x: not found\n", "sh: 1: mcp-server-x: not found"),
        ("Error: BRAVE_API_KEY environment variable is required\n", "Error: BRAVE_API_KEY environment variable is "
                                                                    "required"),
        ("thread 'main' panicked at src/main.rs:1: no key\nnote: run with RUST_BACKTRACE=1\n",
         "thread 'main' panicked at src/main.rs:1: no key"),
        ("first I thought I could\ncannot go on: no database\n", "cannot go on: no database"),
        (GO, "fatal: Authentication required: SLACK_MCP_XOXP_TOKEN must be provided"),
        (OLD_PYTHON, "Because the current Python version (3.11.7) does not satisfy Python>=3.12 and x==0.1.0 cannot be "
                     "used."),
        ('{"level": "info", "msg": "failed?"}\n{"a": [1]}\n{not json}\n', "{not json}"),
        ("one\ntwo\n\n", "two"),
        ("[stdout] Welcome!\nlistening\n", "listening"),
        ("[stdout] Welcome!\n", "[stdout] Welcome!"),
        ("", ""),
        ("\n \n", ""),
    ],
)  # fmt: skip
def test_the_line_that_helps_is_told(text: str, line: str) -> None:
    assert telling(text.splitlines()) == line


def test_a_line_is_fit_for_a_message() -> None:
    told = telling(["x" * 5000 + " error: \x1b[31m\x07"])
    assert len(told) <= 300 and told.isprintable()
