// Asks for a bearer token where the service wants one.
import { useEffect, useRef } from "preact/hooks";
import { keepToken, tokenRefused } from "../service/client.ts";
import { refreshAll } from "../service/live.ts";

export function SignIn() {
  const token = useRef<HTMLInputElement>(null);
  useEffect(() => token.current?.focus(), []);
  const use = (event: Event) => {
    event.preventDefault();
    if (!token.current) return;
    keepToken(token.current.value.trim());
    refreshAll();
  };
  return (
    <form id="sign-in" class="panel narrow" onSubmit={use}>
      <h1>This service asks for a token</h1>
      {tokenRefused.value && <p class="notice" role="alert">The service does not take that token. It may have been revoked, or ended.</p>}
      <p>It is kept in this tab only, and sent with every call as a bearer token.</p>
      <label for="token">Token</label>
      <div class="row">
        <input id="token" ref={token} type="password" autocomplete="off" required />
        <button class="primary" type="submit">Use it</button>
      </div>
    </form>
  );
}
