// Calls of the service: the bearer token, what went wrong as a problem document, and the service's clock.
import { signal } from "@preact/signals";

const AWAY = "The service does not answer; this page tries again by itself.";
const GIVE_UP_MS = 30_000;
const CLOCKS_AGREE_MS = 2_000;
let aheadMs = 0;

interface ProblemDocument {
  title?: string;
  detail?: string;
  where?: string;
  received?: string;
  rule?: string;
  remedy?: string;
}

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly document: ProblemDocument | null = null,
  ) {
    super(document?.detail ?? document?.title ?? (status ? `The service answered ${status}.` : AWAY));
  }
}

export const asksForToken = signal(false);
export const tokenRefused = signal(false);
export const away = signal<string | null>(null);
export const heard = signal(0); // when the service last answered, by this machine's clock; 0: not yet

const token = () => sessionStorage.getItem("token");

// Why it cannot be a token; null where it is kept.
export function keepToken(text: string): string | null {
  if (!/^[\x21-\x7e]+$/.test(text)) return "A token has only letters, digits and signs of ASCII, and no space.";
  sessionStorage.setItem("token", text);
  asksForToken.value = false;
  return null;
}

export const keepsToken = (): boolean => token() !== null;

export function forgetToken(): void {
  sessionStorage.removeItem("token");
  tokenRefused.value = false;
  asksForToken.value = true;
}

export const headers = (): Record<string, string> => {
  const kept = token();
  return kept ? { Authorization: `Bearer ${kept}` } : {};
};

export interface Asked {
  method?: "GET" | "POST" | "PUT" | "DELETE";
  body?: unknown;
  signal?: AbortSignal;
  tag?: Tag; // of the version one has already
}

export interface Tag {
  etag: string | null;
}

// The text of the answer; null where the version that `tag` names is still the newest, and `tag` then names the newest.
export async function text(path: string, { method = "GET", body, signal: given, tag }: Asked = {}): Promise<string | null> {
  const sent = token();
  const asked: RequestInit = { method, headers: tag?.etag ? { ...headers(), "If-None-Match": tag.etag } : headers() };
  const stop = given ?? (method === "GET" ? AbortSignal.timeout(GIVE_UP_MS) : null);
  if (stop) asked.signal = stop;
  if (body !== undefined) {
    asked.body = JSON.stringify(body);
    asked.headers = { ...headers(), "Content-Type": "application/json" };
  }
  let answer: Response;
  let said: string;
  const sentAt = Date.now();
  try {
    answer = await fetch(path, asked);
    said = await answer.text();
  } catch (error) {
    if (given?.aborted) throw error;
    throw new Problem(0);
  }
  if (answer.status < 500) heard.value = Date.now();
  // Its clock showed that somewhere between; an answer that came late says nothing of it.
  const date = Date.parse(answer.headers.get("Date") ?? "");
  const difference = Math.max(date - Date.now(), Math.min(date - sentAt, 0));
  aheadMs = Math.abs(difference) > CLOCKS_AGREE_MS ? difference : 0;
  // An answer to a call from before the token was given says nothing about it.
  if (answer.status === 401 && sent === token()) {
    tokenRefused.value = sent !== null;
    asksForToken.value = true;
  }
  if (answer.status === 304) return null;
  if (tag) tag.etag = answer.headers.get("ETag");
  if (!answer.ok) throw new Problem(answer.status, parsed(said));
  return said;
}

// The answer's document; raises Problem. Give a signal to stop waiting for it.
export async function call<T>(path: string, asked: Asked = {}): Promise<T> {
  return read<T>((await text(path, asked)) ?? "null");
}

export function read<T>(said: string): T {
  try {
    return JSON.parse(said) as T;
  } catch {
    throw new Problem(502, { detail: "The answer cannot be read." });
  }
}

function parsed(said: string): ProblemDocument | null {
  try {
    return JSON.parse(said) as ProblemDocument;
  } catch {
    return null;
  }
}

// Now by the service's clock, which need not be this machine's.
export const now = (): number => Date.now() + aheadMs;
