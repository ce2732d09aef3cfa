// Requests to this server. The page is at …/codex/, the API beside it at …/v1/.

export const base = new URL('..', document.baseURI);

const storageKey = 'caddy-codex-key';
let inMemory = ''; // where the browser has no storage for the page

export function key() {
  try {
    return sessionStorage.getItem(storageKey) ?? '';
  } catch {
    return inMemory;
  }
}

export function setKey(value) {
  try {
    if (value) sessionStorage.setItem(storageKey, value);
    else sessionStorage.removeItem(storageKey);
  } catch {
    inMemory = value;
  }
}

// ApiError is an answer that is not a 2xx, or a failure within a stream.
export class ApiError extends Error {
  constructor(status, error, requestId) {
    super(error?.message || `The server answered with the status ${status}.`);
    this.status = status;
    this.code = error?.code ?? '';
    this.requestId = requestId ?? '';
  }
}

// call sends a request and returns its response, if that is a success.
export async function call(path, { body, headers = {}, signal, method = body === undefined ? 'GET' : 'POST', secret = key() } = {}) {
  const all = { ...headers };
  if (secret) all.Authorization = `Bearer ${secret}`;
  if (body !== undefined) all['Content-Type'] = 'application/json';
  let response;
  try {
    response = await fetch(new URL(path, base), {
      method,
      headers: all,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      cache: 'no-store',
    });
  } catch (failure) {
    if (failure.name === 'AbortError') throw failure;
    throw new ApiError(0, { message: secret && /[^\x21-\x7e]/.test(secret) ? 'The key has characters that cannot be sent.' : 'The server cannot be reached.' });
  }
  if (response.ok) return response;
  let error;
  try {
    error = (await response.json()).error;
  } catch {
    error = undefined; // not of the API: a proxy's page
  }
  throw new ApiError(response.status, error, response.headers.get('x-request-id'));
}

export async function getJSON(path) {
  return (await call(path)).json();
}

// events yields the data of server-sent events as they arrive.
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = ''; // the beginning of a line
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = value.split('\n');
    lines[0] = rest + lines[0];
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith('data: ')) yield line.slice(6).trimEnd();
    }
  }
}
