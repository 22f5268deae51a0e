// What happened to a recommendation while its reader was asked whether to approve or reject it.
import type { Recommendation } from "../service/documents.ts";
import { decision } from "../format.ts";

type Standing = Pick<Recommendation, "id" | "status" | "expired" | "blocked">;

export function overtaken(id: string, what: "approve" | "reject", current: Standing | undefined): string | null {
  if (current?.id !== id) return "There is a newer recommendation. Cancel, and decide on that.";
  if (current.expired) return `It has expired: ${current.expired.reason}`;
  if (current.status !== "pending") return `It is ${decision(current.status)} by now.`;
  return what === "approve" ? (current.blocked?.[0]?.reason ?? null) : null;
}
