// What the page must say wherever one is: the service is away, or it refused what was asked of it.
import { Refusal } from "../parts/sentence.tsx";
import { refused } from "../service/acts.ts";
import { away } from "../service/client.ts";

export function Notices() {
  return (
    <>
      {away.value && <p id="away" class="notice" role="alert">{away.value}</p>}
      {refused.value && (
        <div id="notice" class="notice split" role="alert">
          <Refusal problem={refused.value} />
          <button class="small" type="button" onClick={() => (refused.value = null)}>Dismiss</button>
        </div>
      )}
    </>
  );
}
