// Connects with a TypeScript SDK to a gateway that wants a token, logs in where it is led, and calls what it is told to.
// Prints what it found as one line. Nobody sits at a browser: the page of the provider is fetched, and sends us back.
// node login.mjs <v1|v2> <auto|legacy|a revision> <calls as JSON> <url>

import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { UnauthorizedError as UnauthorizedV1 } from '@modelcontextprotocol/sdk/client/auth.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  Client as ClientV2,
  StreamableHTTPClientTransport as HttpV2,
  UnauthorizedError as UnauthorizedV2
} from '@modelcontextprotocol/client';

const [sdk, era, calls, url] = process.argv.slice(2);
const [Client, Http, Unauthorized] = sdk === 'v1' ? [ClientV1, HttpV1, UnauthorizedV1] : [ClientV2, HttpV2, UnauthorizedV2];
const options = era === 'auto' || era === 'legacy' ? { mode: era } : { mode: { pin: era } };
const asked = [];
let callback;

class Login {
  redirectUrl = 'http://127.0.0.1:1/callback';
  clientMetadata = {
    client_name: `typescript-${sdk}`,
    redirect_uris: [this.redirectUrl],
    grant_types: ['authorization_code'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none'
  };
  clientInformation = () => this.registered;
  saveClientInformation = (registered) => void (this.registered = registered);
  tokens = () => this.saved;
  saveTokens = (tokens) => void (this.saved = tokens);
  codeVerifier = () => this.verifier;
  saveCodeVerifier = (verifier) => void (this.verifier = verifier);
  redirectToAuthorization = async (page) => {
    asked.push({ scope: page.searchParams.get('scope'), resource: page.searchParams.get('resource') });
    const answer = await fetch(page, { redirect: 'manual' });
    callback = new URL(answer.headers.get('location')).searchParams;
  };
}

const login = new Login();
let transport;

async function loggedIn(action) {
  for (let attempt = 0; ; attempt++) {
    try {
      return await action();
    } catch (error) {
      if (!(error instanceof Unauthorized) || attempt === 2) throw error;
      await (sdk === 'v1' ? transport.finishAuth(callback.get('code')) : transport.finishAuth(callback));
    }
  }
}

const client = await loggedIn(async () => {
  transport = new Http(new URL(url), { authProvider: login });
  const fresh = new Client({ name: `typescript-${sdk}`, version: '1.0.0' }, { versionNegotiation: options });
  await fresh.connect(transport);
  return fresh;
});
const session = transport.sessionId;
const results = [];
for (const call of JSON.parse(calls)) results.push(await loggedIn(() => client.callTool(call)));
console.log(
  JSON.stringify({
    revision: client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion,
    tools: (await client.listTools()).tools.map((tool) => tool.name),
    results,
    asked,
    sameSession: session === transport.sessionId
  })
);
await client.close();
