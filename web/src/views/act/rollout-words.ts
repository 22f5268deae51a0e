// A rollout in words: where it stands, which steps it took, and what is to come.
import type { Freeze, ListedRollout, Phase, Progress, RolloutSwitch } from "../../service/documents.ts";
import { count, named, several, watermark, when } from "../../format.ts";

export const turnedBack = ({ phase }: ListedRollout): boolean => phase === "rolling_back" || phase === "rolled_back";
export const dry = ({ summary }: ListedRollout): boolean => summary.written === 0 && !summary.hosts_written;
export const hashed = ({ hashes }: Pick<ListedRollout, "hashes">): boolean => !!hashes?.length;
const TOUCHED: readonly Progress[] = ["applying", "applied", "verified", "set"];
export const touched = <T extends { progress: Progress }>(all: readonly T[]) => all.filter(({ progress }) => TOUCHED.includes(progress));
export const frozenBy = ({ by, at }: Freeze): string => `Frozen by ${by}${at ? `, ${when(at)}` : ""}`;
export const switches = (number: number): string => several(number, "switch", "switches");
// "3 switches and 100 hosts", without those of which there is none.
export const members = (of: number, hosts: number): string =>
  [...(of || !hosts ? [switches(of)] : []), ...(hosts ? [several(hosts, "host")] : [])].join(" and ");
// Of these, the hosts of a rollout that have come so far.
export const touchedHosts = ({ summary }: ListedRollout): number =>
  TOUCHED.reduce((sum, one) => sum + (summary.hosts_progress?.[one] ?? 0), 0);
// Of a rollout that was taken back, what had only been worked out was never sent.
export const progressOf = (one: { progress: Progress }, rollout: ListedRollout): string =>
  turnedBack(rollout) && ["waiting", "staged"].includes(one.progress) ? "never touched" : plain(one.progress);
// What a switch ran, and what it ran after: where it was taken back, what it had run and what it runs again.
export function marks(one: RolloutSwitch, rollout: ListedRollout): { from: string; to: string } {
  const before = one.before ? watermark(one.before) : one.after ? "differs by queue" : "";
  if (turnedBack(rollout)) {
    if (["waiting", "staged"].includes(one.progress)) return { from: "", to: before };
    if (one.progress === "restored") return { from: watermark(one.after ?? one.target), to: before };
  }
  return { from: before, to: one.after ? watermark(one.after) : `${watermark(one.target)} wanted` };
}
export const plain = (name: string): string => name.replaceAll("_", " ");
export const sentence = (what: string): string => what.replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();

export type StepState = "passed" | "current" | "waiting" | "skipped" | "unreached";
export interface Step {
  name: string;
  state: StepState;
  at: string | null;
  back?: boolean;
  why?: string; // it was skipped
}
export const SPOKEN: Record<StepState, string> = {
  passed: "passed",
  current: "under way",
  waiting: "still to come",
  skipped: "skipped",
  unreached: "not reached",
};

const SKIPPED: Partial<Record<Phase, string>> = { soak: "none: the soak is 0 s long", fleet: "no other switch" };
const STEPS: readonly Phase[] = ["approved", "canary", "soak", "fleet", "done"];

export function steps(rollout: ListedRollout): Step[] {
  const began = (phase: Phase) => rollout.phases.find((one) => one.phase === phase)?.at ?? null;
  const back = turnedBack(rollout);
  const phase = rollout.phase === "soak" && rollout.stage > 0 ? "fleet" : rollout.phase; // a batch soaks
  const here = STEPS.indexOf(phase);
  const state = (name: Phase, index: number): StepState => {
    if (back) return began(name) ? "passed" : STEPS.slice(index).some(began) ? "skipped" : "unreached";
    if (index < here) return began(name) ? "passed" : "skipped";
    return index > here ? "waiting" : name === "done" ? "passed" : "current";
  };
  const way: Step[] = STEPS.map((name, index) => {
    const found = state(name, index);
    const why = name === "soak" && dry(rollout) ? "dry run" : SKIPPED[name];
    return { name, state: found, at: began(name), ...(found === "skipped" && why ? { why } : {}) };
  });
  if (!back) return way;
  const at = rollout.phases.at(-1)?.at ?? null;
  return [...way, { name: plain(rollout.phase), state: rollout.ended ? "passed" : "current", at, back }];
}

export function said(rollout: ListedRollout): string {
  const { stages, stage, summary } = rollout;
  const batch = `batch ${stage} of ${stages.length - 1}`;
  // What only a dry run was set on counts where nothing else is set.
  const those = (wanted: Progress) => (dry(rollout) ? summary.progress : summary.written_progress)[wanted] ?? 0;
  const tried = summary.switches - summary.written;
  const only = tried ? ` A dry run on ${switches(tried)}, which nothing was written to.` : "";
  const hosts = (wanted: Progress) => summary.hosts_progress?.[wanted] ?? 0;
  const of = (wanted: Progress) => members(those(wanted), hosts(wanted));
  const number = (wanted: Progress) => those(wanted) + hosts(wanted);
  const out = hosts("left_out") ? ` ${several(hosts("left_out"), "host")} left out: no answer before anything was set.` : "";
  const hostsSet = summary.hosts ? `${count(hosts("set"))} of ${several(summary.hosts, "host")}, ` : "";
  const progress = `${hostsSet}${count(those("set"))} of ${switches(summary.written || summary.switches)} set.`;
  if (dry(rollout) && turnedBack(rollout)) return "A dry run: nothing had been written, nothing to undo.";
  switch (rollout.phase) {
    case "proposed":
      return "Planned, and not yet approved.";
    case "approved":
      return `The change of each switch${summary.hosts ? " and host" : ""} is worked out; none is touched yet.`;
    case "canary":
      return `${named(stages[0] ?? [])} is set first.`;
    case "soak":
      return stage === 0
        ? `${named(stages[0] ?? [])} runs it; telemetry is watched before the others follow.`
        : `B${batch.slice(1)} runs it and is watched; ${progress}`;
    case "fleet":
      return `Setting ${batch}: ${named(stages[stage] ?? [])}; ${progress}`;
    case "done":
      return dry(rollout)
        ? `Nothing was written: this is what would have been set on ${of("set")}.`
        : `${of("set")} ${number("set") === 1 ? "runs" : "run"} it, as read back.${out}${only}`;
    case "rolling_back":
      return `${members(TOUCHED.reduce((sum, one) => sum + those(one), 0), touchedHosts(rollout))} to return to what ran before, the last one first.`;
    case "rolled_back":
      return [
        number("restored") ? `${of("restored")} returned to what ran before.` : number("left_alone") || number("given_up") ? "" : `${summary.hosts ? "Nothing" : "No switch"} had been touched.`,
        number("left_alone") ? `${of("left_alone")} left alone: somebody else has set it since.` : "",
        number("given_up") ? `${of("given_up")} given up: no undo succeeded, so the change may still run there.` : "",
      ].filter(Boolean).join(" ") + only;
  }
}

export function stalled(rollout: ListedRollout): string {
  const reasons = [];
  if (rollout.frozen && !rollout.ended && !turnedBack(rollout)) reasons.push("Switches are frozen: none is set until they are thawed.");
  if (rollout.stalled) reasons.push(`It stands still: ${rollout.stalled}`);
  return reasons.join(" ");
}
