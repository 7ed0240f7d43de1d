// The suite hangs up where a stream has not said enough after half a second or so. On a busy machine that says nothing
// of the server.
const PATIENCE_MS = 5000
const plain = globalThis.setTimeout
const hangsUp = (act) => String(act).includes('.abort()')
globalThis.setTimeout = (act, ms, ...more) => plain(act, hangsUp(act) ? Math.max(ms, PATIENCE_MS) : ms, ...more)
