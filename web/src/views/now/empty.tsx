// Before anything was measured: what to do next.
export function Empty({ reasons }: { reasons: readonly string[] }) {
  return (
    <section id="empty" class="panel" aria-labelledby="empty-title">
      <h2 id="empty-title">Nothing measured yet</h2>
      <p>Post INT reports of your fabric, and this page shows its flows, its queues and a watermark for them:</p>
      <pre tabIndex={0}>
        <code id="curl">
          {"curl -X POST -H 'Content-Type: application/x-ndjson' -H 'Content-Encoding: gzip' \\\n" +
            `     --data-binary @reports.ndjson.gz ${location.origin}/v1/telemetry/int`}
        </code>
      </pre>
      <p>
        No fabric at hand? This starts a simulated one with a service and a page of its own, beside this one, and has a
        first recommendation within a minute:
      </p>
      <pre tabIndex={0}>
        <code>ecntwin demo --serve{location.port === "8080" ? " --port 8180" : ""}</code>
      </pre>
      {reasons.length > 0 && <p class="quiet">What the service says: {reasons.join(" ")}</p>}
      <p class="quiet">
        The repository has a recording to try it with: <code>examples/websearch-16</code>. Every route is described at{" "}
        <a href="/docs">/docs</a>.
      </p>
    </section>
  );
}
