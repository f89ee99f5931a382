// Questions to the service. A key, where one is needed, is held here in memory and nowhere else.

let key = "";

/** Use this key from now on. */
export function useKey(text) {
  key = text.trim();
}

/** What the service said went wrong: a problem document. */
export class Trouble extends Error {
  constructor(problem, status) {
    super(problem.detail ?? "The service does not answer.");
    this.status = status;
  }
}

// Whole numbers beyond what a double holds are ids: they stay exact.
const kept = (_, value, told) =>
  typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(told?.source ?? "")
    ? BigInt(told.source) : value;
const plain = (_, value) =>
  typeof value === "bigint" ? (JSON.rawJSON?.(String(value)) ?? String(value)) : value;

/** A value as JSON, and back. */
export const written = (value) => JSON.stringify(value, plain);
export const readBack = (text) => JSON.parse(text, kept);

/** One text for each id. */
export const keyOf = written;

/** An id as a segment of an address. */
export const segment = (id) => encodeURIComponent(keyOf(id));

const TRIES = 3;
let seen = () => {};

/** Call this with the version of the model that answered. */
export function whenAnswered(call) {
  seen = call;
}

async function sent(method, path, body, left = TRIES - 1) {
  const headers = { Accept: "application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body && written(body) });
  } catch {
    throw new Trouble({ detail: "The service cannot be reached." }, 0);
  }
  if ((answer.status === 429 || answer.status === 503) && left > 0) {
    const seconds = Math.min(3, Number(answer.headers.get("retry-after")) || 1);
    await new Promise((done) => { setTimeout(done, 1000 * seconds); });
    return sent(method, path, body, left - 1);
  }
  const text = await answer.text();
  if (answer.ok && !answer.headers.get("content-type")?.includes("json")) return text;
  let found = {};
  try {
    found = text ? readBack(text) : {};
  } catch { /* not JSON: told by its status alone */ }
  if (!answer.ok) throw new Trouble(found, answer.status);
  if (found.model) seen(found.model);
  return found;
}

export const get = (path) => sent("GET", path);
export const ask = (path, body) => sent("POST", path, body);
