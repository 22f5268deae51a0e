// Sentences: why a recommendation is what it is, and what went wrong where, by which rule, and what helps.
import type { ComponentChildren } from "preact";
import type { Problem } from "../service/client.ts";

export function Sentence({ id, children }: { id?: string; children: ComponentChildren }) {
  return <p id={id} class="sentence">{children}</p>;
}

export function Refusal({ problem }: { problem: Problem }) {
  const { where, received, rule, remedy } = problem.document ?? {};
  const parts = ([["Where", where], ["Received", received], ["Rule", rule], ["Remedy", remedy]] as const).filter(
    ([, text]) => text,
  );
  return (
    <div>
      <p>{problem.message}</p>
      {parts.length > 0 && (
        <details>
          <summary>Where, and what helps</summary>
          <dl class="pairs">
            {parts.map(([name, text]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{text}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </div>
  );
}
