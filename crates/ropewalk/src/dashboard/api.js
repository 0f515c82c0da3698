// Requests to the metadata server and its stream of events. Owns the token and nothing of the page.

const BASE = "api/v1";
/** Longest wait for an answer. */
const ANSWER_MS_MAX = 35_000;
/** Longest silence of a stream: a sample comes each second, and a comment after 15 s at the latest. */
const SILENCE_MS_MAX = 20_000;
/** Longest event in characters. */
const EVENT_CHARS_MAX = 16 * 1024 * 1024;
const TOKEN_KEY = "ropewalk.token";

/** What the server, or the way to it, refused. `status` is 0 when nobody answered. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The token of this tab. */
export const token = {
  read: () => sessionStorage.getItem(TOKEN_KEY),
  keep: (value) => sessionStorage.setItem(TOKEN_KEY, value),
  forget: () => sessionStorage.removeItem(TOKEN_KEY),
};

async function problem(response) {
  let text = "";
  try {
    const body = await response.json();
    text = body.detail || body.title || "";
  } catch {
    // Not a problem of RFC 9457: what the status says has to do.
  }
  return new ApiError(response.status, text || `The server answered ${response.status} ${response.statusText}`.trim());
}

async function send(path, options) {
  const held = token.read();
  const headers = { ...options.headers };
  if (held) headers.Authorization = `Bearer ${held}`;
  try {
    return await fetch(`${BASE}${path}`, { cache: "no-store", credentials: "omit", ...options, headers });
  } catch (error) {
    if (options.signal?.aborted && error.name === "AbortError") throw error;
    const why = error.name === "TimeoutError" ? "It did not answer in time." : "It does not answer.";
    throw new ApiError(0, why);
  }
}

/** Asks, and gives the JSON of the answer; null for an empty one. */
export async function ask(method, path, body) {
  const options = { method, signal: AbortSignal.timeout(ANSWER_MS_MAX) };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers = { "Content-Type": "application/json" };
  }
  const response = await send(path, options);
  if (!response.ok) throw await problem(response);
  let text;
  try {
    text = await response.text();
  } catch {
    throw new ApiError(0, "The connection broke.");
  }
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch {
    throw new ApiError(0, "The answer is not JSON.");
  }
}

/** Cuts a text/event-stream into events. Pure, but for what it keeps of an event that has not ended. */
export class EventParser {
  constructor(onEvent) {
    this.onEvent = onEvent;
    this.rest = "";
    this.name = "";
    this.data = [];
    this.chars = 0;
  }

  feed(text) {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop();
    if (this.rest.length + this.chars > EVENT_CHARS_MAX) throw new ApiError(0, "An event is too long.");
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") this.#end();
      else this.#field(line);
    }
  }

  #field(line) {
    const at = line.indexOf(":");
    const name = at < 0 ? line : line.slice(0, at);
    const value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
    if (name === "event") this.name = value;
    if (name === "data") {
      this.data.push(value);
      this.chars += value.length;
    }
  }

  #end() {
    const [name, data] = [this.name, this.data];
    [this.name, this.data, this.chars] = ["", [], 0];
    if (data.length > 0) this.onEvent(name || "message", JSON.parse(data.join("\n")));
  }
}

/** Reads the stream, with the events after `seen`, until it ends, which is an error, or `signal` ends it. */
export async function stream(signal, seen, onEvent) {
  const own = new AbortController();
  const stop = () => own.abort();
  signal.addEventListener("abort", stop);
  let timer = 0;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(stop, SILENCE_MS_MAX);
  };
  try {
    heard();
    const headers = { Accept: "text/event-stream" };
    if (seen !== null) headers["Last-Event-ID"] = String(seen);
    const response = await send("/stream", { signal: own.signal, headers });
    if (!response.ok) throw await problem(response);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new EventParser(onEvent);
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new ApiError(0, "It ended the connection.");
      heard();
      parser.feed(value);
    }
  } catch (error) {
    if (error instanceof ApiError) throw error;
    if (signal.aborted) throw error;
    throw new ApiError(0, own.signal.aborted ? "It is silent." : "The connection broke.");
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
    own.abort();
  }
}
