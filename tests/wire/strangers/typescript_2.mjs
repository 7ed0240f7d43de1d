// A server of both protocol revisions made with the TypeScript SDK 2, put together from its examples.
//
//     node typescript_2.mjs [--http PORT]

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

import { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest } from '@modelcontextprotocol/node';
import {
    completable, createMcpHandler, inputRequired, isInitializeRequest, isLegacyRequest, McpServer, ResourceTemplate
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod/v4';

const FORM = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
const text = said => ({ content: [{ type: 'text', text: said }] });

// One question in the way of each revision: a request during the call, or an answer that asks.
async function ask(era, ctx, push, embedded) {
    if (era === 'legacy') return { answer: await push() };
    const answer = ctx.mcpReq.inputResponses?.one;
    return answer ? { answer } : { required: inputRequired({ inputRequests: { one: embedded } }) };
}

function buildServer({ era }) {
    const server = new McpServer(
        { name: 'strange', version: '1.0.0' },
        { capabilities: { logging: {}, completions: {}, resources: { listChanged: true } } }
    );
    const tool = (name, inputSchema, run) =>
        server.registerTool(name, { description: `Does ${name}`, ...(inputSchema ? { inputSchema: z.object(inputSchema) } : {}) }, run);

    tool('echo', { text: z.string() }, async ({ text: said }) => text(said));
    tool('fail', undefined, async () => { throw new Error('it broke'); });
    server.registerTool(
        'structured',
        { description: 'Structured', inputSchema: z.object({ number: z.number() }), outputSchema: z.object({ number: z.number() }) },
        async ({ number }) => ({ ...text(String(number)), structuredContent: { number } })
    );
    tool('progress', undefined, async ctx => {
        const progressToken = ctx.mcpReq._meta?.progressToken;
        for (const progress of [0, 1, 2]) {
            if (progressToken !== undefined) {
                await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: 3 } });
            }
        }
        return text('done');
    });
    tool('log', undefined, async ctx => {
        await ctx.mcpReq.log('info', 'a line');
        return text('logged');
    });
    tool('elicit_form', undefined, async ctx => {
        const params = { message: 'What is your name?', requestedSchema: FORM };
        const { answer, required } = await ask(
            era, ctx, () => ctx.mcpReq.elicitInput({ mode: 'form', ...params }), inputRequired.elicit(params)
        );
        return required ?? text(JSON.stringify(answer));
    });
    tool('elicit_url', undefined, async ctx => {
        const params = { message: 'Log in there', url: 'https://example.com/login' };
        const { answer, required } = await ask(
            era, ctx, () => ctx.mcpReq.elicitInput({ mode: 'url', elicitationId: 'one', ...params }), inputRequired.elicitUrl(params)
        );
        return required ?? text(JSON.stringify(answer.action));
    });
    tool('sample', undefined, async ctx => {
        const params = { messages: [{ role: 'user', content: { type: 'text', text: 'hello' } }], maxTokens: 10 };
        const { answer, required } = await ask(
            era, ctx, () => ctx.mcpReq.requestSampling(params), inputRequired.createMessage(params)
        );
        return required ?? text(JSON.stringify(answer.content));
    });
    tool('roots', undefined, async ctx => {
        const { answer, required } = await ask(era, ctx, () => server.server.listRoots(), inputRequired.listRoots());
        return required ?? text(JSON.stringify(answer.roots));
    });
    tool('slow', undefined, async ctx => {
        const progressToken = ctx.mcpReq._meta?.progressToken;
        if (progressToken !== undefined) {
            await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: 0 } });
        }
        await new Promise(done => ctx.mcpReq.signal.addEventListener('abort', done));
        return text('given up');
    });
    tool('grow', undefined, async () => {
        server.sendResourceListChanged();
        return text('grown');
    });
    server.registerResource('one', 'note://one', {}, async uri => ({ contents: [{ uri: uri.href, text: 'the first note' }] }));
    server.registerResource('by', new ResourceTemplate('note://by/{name}', { list: undefined }), {}, async (uri, { name }) => ({
        contents: [{ uri: uri.href, text: `the note ${name}` }]
    }));
    const names = completable(z.string(), begun => ['Ann', 'Anton', 'Bob'].filter(name => name.startsWith(begun)));
    server.registerPrompt('greet', { argsSchema: z.object({ name: names }) }, async ({ name }) => ({
        messages: [{ role: 'user', content: { type: 'text', text: `Say hello to ${name}` } }]
    }));
    return server;
}

const at = process.argv.indexOf('--http');
if (at < 0) {
    void serveStdio(buildServer);
} else {
    const modern = toNodeHandler(createMcpHandler(buildServer, { legacy: 'reject' }));
    const sessions = new Map();
    const sessionBased = async (req, res, body) => {
        const id = req.headers['mcp-session-id'];
        if (id && sessions.has(id)) return sessions.get(id).handleRequest(req, res, body);
        if (id || !isInitializeRequest(body)) return res.writeHead(id ? 404 : 400).end();
        const transport = new NodeStreamableHTTPServerTransport({
            sessionIdGenerator: () => randomUUID(),
            onsessioninitialized: made => sessions.set(made, transport)
        });
        await buildServer({ era: 'legacy' }).connect(transport);
        return transport.handleRequest(req, res, body);
    };
    createServer((req, res) => {
        void (async () => {
            const request = await toWebRequest(req);
            const legacy = await isLegacyRequest(request);
            const body = req.method === 'POST' ? await request.json().catch(() => undefined) : undefined;
            await (legacy ? sessionBased : modern)(req, res, body);
        })().catch(() => res.headersSent || res.writeHead(500).end());
    }).listen(Number(process.argv[at + 1]), '127.0.0.1');
}
