// A TypeScript SDK as a client that logs in: node client.mjs <v1|v2> <auto|legacy|a revision> <url>
// Speaks JSON lines with whoever started it: it says {"visit": address} where a person would look at a page, and is told
// {"arrived": where that ended}; it is told {"call": {name, arguments}} and says {"text": ..., "failed": ...}.

import readline from 'node:readline';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { UnauthorizedError as UnauthorizedV1 } from '@modelcontextprotocol/sdk/client/auth.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  Client as ClientV2,
  StreamableHTTPClientTransport as HttpV2,
  UnauthorizedError as UnauthorizedV2
} from '@modelcontextprotocol/client';

const [sdk, era, url] = process.argv.slice(2);
const [Client, Http, Unauthorized] = sdk === 'v1' ? [ClientV1, HttpV1, UnauthorizedV1] : [ClientV2, HttpV2, UnauthorizedV2];
const options = era === 'auto' || era === 'legacy' ? { mode: era } : { mode: { pin: era } };
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (what) => console.log(JSON.stringify(what));
const next = async () => {
  const { value, done } = await lines.next();
  if (done) process.exit(0);
  return JSON.parse(value);
};

let callback;
const login = {
  redirectUrl: 'http://127.0.0.1:1/callback',
  clientMetadata: {
    client_name: `typescript-${sdk}`,
    redirect_uris: ['http://127.0.0.1:1/callback'],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    application_type: 'native',
    token_endpoint_auth_method: 'none'
  },
  clientInformation: () => login.registered,
  saveClientInformation: (registered) => void (login.registered = registered),
  tokens: () => login.saved,
  saveTokens: (tokens) => void (login.saved = tokens),
  invalidateCredentials: (what) => {
    if (what === 'all' || what === 'client') login.registered = undefined;
    if (what === 'all' || what === 'tokens') login.saved = undefined;
  },
  codeVerifier: () => login.verifier,
  saveCodeVerifier: (verifier) => void (login.verifier = verifier),
  redirectToAuthorization: async (page) => {
    say({ visit: String(page) });
    const { arrived } = await next();
    callback = new URL(arrived).searchParams;
  }
};

let transport;
async function loggedIn(action) {
  for (let attempt = 0; ; attempt++) {
    try {
      return await action();
    } catch (error) {
      if (!(error instanceof Unauthorized) || attempt === 2) throw error;
      if (!callback.get('code')) throw new Error(`${callback.get('error')}: ${callback.get('error_description')}`);
      await (sdk === 'v1' ? transport.finishAuth(callback.get('code')) : transport.finishAuth(callback));
    }
  }
}

let client;
const connect = async () => {
  transport = new Http(new URL(url), { authProvider: login });
  client = new Client({ name: `typescript-${sdk}`, version: '1.0.0' }, { versionNegotiation: options });
  await client.connect(transport);
};

for (;;) {
  const { call } = await next();
  try {
    if (client === undefined) await loggedIn(connect).catch((error) => ((client = undefined), Promise.reject(error)));
    const result = await loggedIn(() => client.callTool(call));
    say({ text: result.content.map((part) => part.text ?? '').join(''), failed: result.isError === true });
  } catch (error) {
    say({ text: `${error.name}: ${error.message}`, failed: true });
  }
}
