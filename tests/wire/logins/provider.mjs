// A certified OpenID provider (npm oidc-provider) as it comes, with one person who says yes to everything.
// node provider.mjs <strict|lenient>
// strict: as it comes, a client may ask for the scopes that it registered with and no others. lenient: for all.
// The first line on stdout is {"issuer": ...}. Lines on stdin change what it does from then on, each answered by a line:
// {"may": [scopes of the person], "lives": seconds of a token, "renews": whether there are refresh tokens,
//  "revoke": true ends every grant}.

import http from 'node:http';
import readline from 'node:readline';
import Provider from 'oidc-provider';

const strict = process.argv[2] === 'strict';
const SCOPES = ['mcp:read', 'mcp:write', 'mcp:all'];
const now = { may: SCOPES, lives: 600, renews: true };
const grants = new Set();

const server = http.createServer();
await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  scopes: ['openid', 'offline_access', ...SCOPES],
  pkce: { required: () => true },
  clientDefaults: { id_token_signed_response_alg: 'RS256', token_endpoint_auth_method: 'none' },
  rotateRefreshToken: true,
  issueRefreshToken: async (ctx, client) => now.renews && client.grantTypeAllowed('refresh_token'),
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  ttl: { AccessToken: () => now.lives, Interaction: 600, Session: 600, Grant: 3600, RefreshToken: 3600 },
  interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (ctx, resource) => ({
        scope: SCOPES.join(' '), audience: resource, accessTokenTTL: now.lives, accessTokenFormat: 'jwt',
        jwt: { sign: { alg: 'RS256' } }
      })
    }
  }
});

const body = async (request) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString();
};

const handle = provider.callback();
server.on('request', async (request, response) => {
  if (request.url.startsWith('/interaction/')) {
    const { prompt, params, session, grantId } = await provider.interactionDetails(request, response);
    const accountId = session?.accountId ?? 'alice';
    const result = {};
    if (prompt.name === 'login') {
      result.login = { accountId };
    } else {
      const grant = (grantId && (await provider.Grant.find(grantId))) || new provider.Grant({ accountId, clientId: params.client_id });
      const refused = [];
      for (const [resource, wanted] of Object.entries(prompt.details.missingResourceScopes ?? {})) {
        grant.addResourceScope(resource, wanted.filter((each) => now.may.includes(each)).join(' '));
        refused.push(...wanted.filter((each) => !now.may.includes(each)));
        if (refused.length) grant.rejectResourceScope(resource, refused.join(' '));
      }
      if (prompt.details.missingOIDCScope) {
        const wanted = prompt.details.missingOIDCScope;
        grant.addOIDCScope(wanted.filter((each) => !SCOPES.includes(each) || now.may.includes(each)).join(' '));
        const not = wanted.filter((each) => SCOPES.includes(each) && !now.may.includes(each));
        if (not.length) grant.rejectOIDCScope(not.join(' '));
      }
      const id = await grant.save();
      grants.add(id);
      result.consent = { grantId: id };
    }
    return provider.interactionFinished(request, response, result, { mergeWithLastSubmission: true });
  }
  if (!strict && request.method === 'POST' && request.url === '/reg') {
    const { scope, ...rest } = JSON.parse(await body(request));
    request.body = rest;
  }
  return handle(request, response);
});

console.log(JSON.stringify({ issuer }));
for await (const line of readline.createInterface({ input: process.stdin })) {
  const { revoke, ...changes } = JSON.parse(line);
  Object.assign(now, changes);
  if (revoke) {
    for (const id of grants) {
      await provider.Grant.adapter.revokeByGrantId(id);
      await provider.RefreshToken.revokeByGrantId(id);
      await (await provider.Grant.find(id))?.destroy();
    }
    grants.clear();
  }
  console.log(JSON.stringify(now));
}
process.exit(0);
