/* The endpoints of the server as functions; a refusal is thrown as an Error with one sentence. */

/** The studio was started again, and knows this page no more. */
export class OldPageError extends Error {
  constructor() {
    super("The studio was started again. Open the address that it printed in the terminal; this page belongs to the run before.");
  }
}

async function request(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("The server does not answer. Is `marginshot studio` still running?");
  }
  if (response.ok) return response;
  if (response.status === 403) throw new OldPageError();
  const body = await response.json().catch(() => ({}));
  throw new Error(body.error || `The server answered ${response.status}.`);
}

export const get = async (path) => (await request(path)).json();

export async function post(path, body) {
  const headers = { "Content-Type": "application/json", "X-Marginshot": "1" };
  return (await request(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

/** {version, number, n, code, confidence, flags}: two bytes, one byte and one byte an item. */
export async function answers() {
  const buffer = await (await request("api/answers")).arrayBuffer();
  const [version, number, n] = new Uint32Array(buffer, 0, 3);
  return {
    version,
    number,
    n,
    code: new Uint16Array(buffer, 12, n),
    confidence: new Uint8Array(buffer, 12 + 2 * n, n),
    flags: new Uint8Array(buffer, 12 + 3 * n, n),
  };
}

/** Float32Array x0 y0 x1 y1 …, or null while the server is still computing it. */
export async function map() {
  const response = await request("api/map");
  return response.status === 202 ? null : new Float32Array(await response.arrayBuffer());
}

/** Int32Array with the number of every row's event; empty where every row is its own. */
export const together = async () => new Int32Array(await (await request("api/together")).arrayBuffer());

const RETRY = 2000; // milliseconds

/**
 * Events of the server, which sends the whole state at every connection. A hidden page disconnects, because browsers
 * allow only six connections to a server.
 */
export function listen({ opened, lost, ...handlers }) {
  let source = null;

  function connect() {
    source?.close();
    source = null;
    if (document.hidden) return;
    source = new EventSource("api/events");
    source.onopen = opened;
    source.onerror = async () => {
      const closed = source?.readyState === EventSource.CLOSED;
      lost(closed ? await get("api/project").catch((error) => error) : null);
      if (closed) setTimeout(connect, RETRY);
    };
    for (const [event, handle] of Object.entries(handlers)) {
      source.addEventListener(event, (message) => message.data && handle(JSON.parse(message.data)));
    }
  }

  document.addEventListener("visibilitychange", connect);
  connect();
}
