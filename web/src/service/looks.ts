// What the views look at, and when each is asked for again.
import type { Look } from "./live.ts";

export const readiness: Look = { path: "/v1/readiness", after: ["reports", "round", "recommendation"], spacingMs: 1_000 };
export const condition: Look = { path: "/v1/condition", after: ["condition", "alarm"], spacingMs: 1_000 };
// The state with as many queues as tables list, the fabric added up by switch, and all queues for the map of a fabric
// that is small enough to be drawn port by port.
export const LISTED = 48;
export const state: Look = { path: `/v1/state?queues=${LISTED}`, after: ["reports"], spacingMs: 2_000 };
export const allQueues: Look = { path: "/v1/state/queues", after: ["reports"], everyMs: 20_000, spacingMs: 10_000 };
export const overview: Look = { path: "/v1/fabric", after: ["reports"], spacingMs: 2_000 };
export const switchPorts = (name: string): Look => ({
  path: `/v1/fabric/${encodeURIComponent(name)}`,
  after: ["reports"],
  spacingMs: 2_000,
});
// What reports show is worked out only where it is drawn.
export const topology = (discovered: boolean): Look => ({ path: `/v1/topology${discovered ? "" : "?discovered=false"}`, everyMs: 60_000 });
export const alarms: Look = { path: "/v1/alarms?all=true&limit=50&subjects=32", after: ["alarm"], spacingMs: 500 };
export const silences: Look = { path: "/v1/alarms/silences", after: ["alarm"], everyMs: 60_000 };
export const freeze: Look = { path: "/v1/freeze", after: ["rollout", "validity"], spacingMs: 500 };
export const recommendations = (most: number, before: string | null): Look => ({
  path: `/v1/recommendations?candidates=false${before ? `&before=${encodeURIComponent(before)}` : ""}&limit=${most}`,
  after: ["recommendation", "decision", "validity", "rollout"],
  spacingMs: most > 100 ? 5_000 : 500,
});
// Asked for only where there is one: use current() of service/current.ts.
export const currentRecommendation: Look = {
  path: "/v1/recommendations/current?candidates=false",
  after: ["recommendation", "decision", "validity", "rollout", "advice"],
  spacingMs: 500,
  lasting: true, // latest() asks for it
};
export const recommendation = (id: string): Look => ({
  path: `/v1/recommendations/${encodeURIComponent(id)}`,
  after: ["recommendation", "decision", "validity", "rollout"],
  everyMs: 30_000,
  spacingMs: 2_000,
});
const LISTED_ROLLOUT =
  "id,recommendation,phase,ended,why,approved_by,frozen,stalled,proposed_at,since,stage,stages,phases,soak_s,soak_from,seen,before,predicted,summary,hashes";
export const newestRollout: Look = { path: `/v1/rollouts?limit=1&fields=${LISTED_ROLLOUT}`, after: ["rollout"], spacingMs: 500 };
// Of hundreds of switches each look takes a part: how far each is, what it ran and runs, and the change of the one that
// is opened.
const ofRollout = (id: string, asked: string, spacingMs: number): Look => ({
  path: `/v1/rollouts/${encodeURIComponent(id)}?${asked}`,
  after: ["rollout"],
  spacingMs,
});
const each = (...names: string[]): string => `fields=${names.map((name) => `switches.${name}`).join()}`;
export const progress = (id: string): Look => ofRollout(id, each("switch", "stage", "writes", "progress", "target", "detail"), 500);
export const marks = (id: string, notes: boolean): Look =>
  ofRollout(id, each("switch", "before", "after", ...(notes ? ["notes"] : [])), 2_000);
export const rolloutChange = (id: string, name: string): Look =>
  ofRollout(id, `switch=${encodeURIComponent(name)}&${each("diff", "notes")}`, 2_000);
export const rolloutHosts = (id: string): Look =>
  ofRollout(id, `fields=${["host", "stage", "writes", "progress", "target", "diff", "detail"].map((name) => `hosts.${name}`).join()}`, 1_000);
export const happened = (id: string): Look => ({
  path: `/v1/rollouts/${encodeURIComponent(id)}?fields=events`,
  after: ["rollout"],
  spacingMs: 500,
});
// These looks read every switch of the fabric, so they are not taken often; the settings are known without.
const ofSwitches = (fields: string): Look => ({
  path: `/v1/switches?fields=${fields}`,
  after: ["switch", "rollout"],
  everyMs: 30_000,
  spacingMs: 5_000,
});
export const switches = ofSwitches("name,reachable,detail,running,differs,drifted");
export const switchSettings = ofSwitches("name,adapter,capabilities.reads,writes,set_to");
// Queue by queue where they differ: for the map of a fabric that is small enough to be drawn port by port.
export const switchQueues = ofSwitches("name,running,queues");
export const outcome = (id: string): Look => ({
  path: `/v1/recommendations/${encodeURIComponent(id)}/outcome`,
  after: ["rollout"],
  everyMs: 30_000,
  spacingMs: 2_000,
});
export const rollouts: Look = { path: `/v1/rollouts?limit=50&fields=${LISTED_ROLLOUT}`, after: ["rollout"], everyMs: 30_000, spacingMs: 1_000 };

// What was, from the database.
const PAST_MS = 30_000;
export const RESIDUALS = 10_000;
export const residuals = (since: string): Look => ({
  path: `/v1/history/residuals?limit=${RESIDUALS}&since=${since}`,
  after: ["recommendation"],
  everyMs: PAST_MS,
  spacingMs: 2_000,
});
export const advice: Look = { path: "/v1/history/advice", after: ["recommendation"], everyMs: 10 * PAST_MS, spacingMs: 5_000 };
export const gains = (since: string): Look => ({
  path: `/v1/history/gains?limit=1000&since=${since}`,
  after: ["recommendation", "rollout"],
  everyMs: PAST_MS,
  spacingMs: 2_000,
});
export const pastAlarms = (since: string): Look => ({
  path: `/v1/history/alarms?limit=200&since=${since}`,
  after: ["alarm"],
  everyMs: PAST_MS,
  spacingMs: 2_000,
});
// Every port that has a past, the deepest first, with next to nothing of it. It is told in the coarsest steps, which
// begin when the first is over: of a past that is younger there are only finer ones.
export const pastPorts = (since: string): Look => ({
  path: `/v1/history/queues?queues=1000&most=1&since=${since}`,
  everyMs: 2 * PAST_MS,
});
export const youngPorts = (since: string): Look => ({
  path: `/v1/history/queues?queues=16&most=500&since=${since}`,
  everyMs: 2 * PAST_MS,
});
export const forecastOf = (at: { switch: string; port: string }, horizon_s: number): Look => ({
  path: `/v1/history/forecast?${new URLSearchParams({ switch: at.switch, port: at.port, horizon_s: String(horizon_s) })}`,
  everyMs: 2 * PAST_MS,
});
export const pastOf = (at: { switch: string; port: string }, since: string): Look => ({
  path: `/v1/history/queues?${new URLSearchParams({ switch: at.switch, port: at.port, since, most: "500" })}`,
  everyMs: PAST_MS,
});
