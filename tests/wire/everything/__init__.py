"""A server of our own writing that passes every server scenario of the conformance suite, in both wire eras.

Run it as `python -m tests.wire.everything` from the root of the repository: over stdio, or with `--http PORT`
at /mcp. Beside the tools that the suite names it has a few that a gateway finds hard (`cells`): they ask the
client, hang until they are cancelled, change their own list.

Tools are written once for both eras: what a tool wants to know it returns as `input_required`, and on the
handshake wire `calls` asks the client in its place and calls the tool again with the answers.
"""
