// Flows by class, and the share of bytes that each class carries.
import type { State } from "../../service/documents.ts";
import { CLASSES, few, percent, several } from "../../format.ts";

export function Flows({ state }: { state: State }) {
  const total = Object.values(state.bytes).reduce((sum, value) => sum + value, 0) || 1;
  const names = Object.keys(CLASSES) as (keyof typeof CLASSES)[];
  return (
    <>
    <table class="shares">
      <caption class="unseen">Flows by class</caption>
      <thead class="unseen">
        <tr><th scope="col">Class</th><th scope="col">Flows</th><th scope="col">Share of bytes</th></tr>
      </thead>
      <tbody>
        {names.map((name) => (
          <tr key={name}>
            <th scope="row">{CLASSES[name]}</th>
            <td>{several(state.flows[name], "flow")}</td>
            <td>
              <Bar share={state.bytes[name] / total} />
              <span>{percent(state.bytes[name] / total)} of bytes</span>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
    {state.mice_to_elephants !== null && (
      <p class="quiet">{few(state.mice_to_elephants)} mice to each elephant by number{state.mice_to_elephants_bytes !== null && `, ${few(state.mice_to_elephants_bytes)} by bytes`}.</p>
    )}
    </>
  );
}

// A picture of the figure beside it.
function Bar({ share }: { share: number }) {
  return (
    <svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
      <rect class="ground" width="100" height="6" />
      <rect class="fill" width={(100 * share).toFixed(2)} height="6" />
    </svg>
  );
}
