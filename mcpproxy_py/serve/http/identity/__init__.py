"""Bearer tokens of an identity provider at the MCP surfaces (SEC-2): its keys, what a token says and what that is good
for, and how a client finds its way to the provider. Imported where `auth.jwt` is configured, and PyJWT with it."""
