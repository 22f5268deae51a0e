// What the page must say wherever one is: the service is away, what is shown is old, or it refused what was asked of it.
import { Refusal } from "../parts/sentence.tsx";
import { refused } from "../service/acts.ts";
import { asksForToken, away } from "../service/client.ts";
import type { Readiness } from "../service/documents.ts";
import { failing, useLive } from "../service/live.ts";
import * as looks from "../service/looks.ts";
import { when } from "../format.ts";
import { OtherToken } from "./sign-in.tsx";

export function Notices() {
  const storage = useLive<Readiness>(looks.readiness).value?.storage;
  const said = new Map<string, number>(); // since when each is true
  const all = [...failing.value.values()];
  const forbidden = all.find(({ problem }) => problem.status === 403)?.problem;
  for (const { since, problem } of all) if (problem.status !== 403) said.set(problem.message, Math.min(since, said.get(problem.message) ?? since));
  return (
    <>
      {away.value && <p id="away" class="notice" role="alert">{away.value}</p>}
      {!away.value && [...said].map(([text, since]) => (
        <p key={text} class="notice" role="alert">Not up to date since {when(new Date(since).toISOString())}: {text}</p>
      ))}
      {forbidden && !asksForToken.value && (
        <div id="forbidden" class="notice split" role="alert">
          <Refusal problem={forbidden} />
          <OtherToken />
        </div>
      )}
      {storage?.says && <p id="storage" class="notice" role="alert">{storage.says}</p>}
      {refused.value && (
        <div id="notice" class="notice split" role="alert">
          <Refusal problem={refused.value} />
          <button class="small" type="button" onClick={() => (refused.value = null)}>Dismiss</button>
        </div>
      )}
    </>
  );
}
