// The service as the page calls it: its routes, its stream of events, and what went wrong as a sentence.
const AWAY = "The service does not answer; this page tries again by itself.";
const GIVE_UP_MS = 30_000;
const CLOCKS_AGREE_MS = 2_000;
let aheadMs = 0;

export class Problem extends Error {
  constructor(status, document) {
    super(document?.detail ?? (status ? `The service answered ${status}.` : AWAY));
    this.status = status;
  }
}

const token = () => sessionStorage.getItem("token");
export const keepToken = (text) => sessionStorage.setItem("token", text);
const headers = () => (token() ? { Authorization: `Bearer ${token()}` } : {});

export async function call(path, method = "GET", body = undefined) {
  const asked = { method, headers: headers() };
  if (method === "GET") asked.signal = AbortSignal.timeout(GIVE_UP_MS);
  if (body !== undefined) {
    asked.body = JSON.stringify(body);
    asked.headers["Content-Type"] = "application/json";
  }
  const answer = await fetch(path, asked).catch(() => { throw new Problem(0); });
  const difference = Date.parse(answer.headers.get("Date") ?? "") - Date.now();
  aheadMs = Math.abs(difference) > CLOCKS_AGREE_MS ? difference : 0;
  const document = await answer.json().catch(() => null);
  if (answer.status === 401) window.document.getElementById("sign-in").hidden = false;
  if (!answer.ok) throw new Problem(answer.status, document);
  return document;
}

// Now by the service's clock, which need not be this machine's.
export const now = () => Date.now() + aheadMs;

// For looks beside the page's own refresh, which says that the service is away.
export const orNothing = (promise) =>
  promise.catch((error) => {
    if (!(error instanceof Problem)) throw error;
    return undefined;
  });

export const orNull = (promise, ...expected) =>
  promise.catch((error) => {
    if (error instanceof Problem && expected.includes(error.status)) return null;
    throw error;
  });

// What came of the last thing asked for stays until the next, or until it is dismissed.
export function say(text) {
  const notice = document.getElementById("notice");
  notice.hidden = !text;
  notice.querySelector("p").textContent = text ?? "";
}

// True where it was done; where it was not, the page says why.
export async function act(button, path, method = "POST", body = undefined) {
  button.disabled = true;
  try {
    await call(path, method, body);
    say(null);
    return true;
  } catch (error) {
    say(error.message);
    return false;
  } finally {
    button.disabled = false;
  }
}

// At most one run at a time and one every so often; whatever is asked for meanwhile gives one more.
export function throttled(work, everyMs) {
  let busy = false;
  let again = false;
  return async () => {
    again = true;
    if (busy) return;
    busy = true;
    try {
      while (again) {
        again = false;
        await work();
        await new Promise((resolve) => setTimeout(resolve, everyMs));
      }
    } finally {
      busy = false;
    }
  };
}

// EventSource sends no Authorization header, so the stream is read by hand.
export async function listen(heard) {
  for (;;) {
    try {
      const answer = await fetch("/v1/events", { headers: headers() });
      if (!answer.ok) throw new Problem(answer.status);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        const frames = text.split("\n\n");
        text = frames.pop();
        for (const frame of frames) {
          const fields = Object.fromEntries(frame.split("\n").map((line) => line.split(/: (.*)/s, 2)));
          if (fields.event) heard(fields.event, JSON.parse(fields.data));
        }
      }
    } catch {
      // Polling goes on meanwhile.
    }
    await new Promise((resolve) => setTimeout(resolve, 3_000));
  }
}
