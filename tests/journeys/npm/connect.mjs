// Connects with a TypeScript SDK, lists the tools, calls what it is told to, and prints what it found as one line.
// node connect.mjs <v1|v2> <auto|legacy|a revision> <calls as JSON> <url | command arguments...>

import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';

const [sdk, era, calls, ...target] = process.argv.slice(2);
const [Client, Http, Stdio] = sdk === 'v1' ? [ClientV1, HttpV1, StdioV1] : [ClientV2, HttpV2, StdioV2];
const options = era === 'auto' || era === 'legacy' ? { mode: era } : { mode: { pin: era } };
const client = new Client({ name: `typescript-${sdk}`, version: '1.0.0' }, { versionNegotiation: options });

const transport = target[0].startsWith('http')
  ? new Http(new URL(target[0]))
  : new Stdio({ command: target[0], args: target.slice(1), env: process.env });
await client.connect(transport);

const { tools } = await client.listTools();
const results = [];
for (const call of JSON.parse(calls)) results.push(await client.callTool(call));
console.log(
  JSON.stringify({
    server: client.getServerVersion(),
    revision: client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion,
    tools: tools.map((tool) => tool.name),
    results
  })
);
await client.close();
