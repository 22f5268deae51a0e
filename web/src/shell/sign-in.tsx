// Asks for a bearer token where the service wants one.
import { useEffect, useRef, useState } from "preact/hooks";
import { forgetToken, keepToken, tokenRefused } from "../service/client.ts";
import { refreshAll } from "../service/live.ts";

export function SignIn() {
  const token = useRef<HTMLInputElement>(null);
  const [wrong, tell] = useState<string | null>(null);
  useEffect(() => token.current?.focus(), []);
  const use = (event: Event) => {
    event.preventDefault();
    if (!token.current) return;
    const why = keepToken(token.current.value.trim());
    tell(why);
    if (!why) refreshAll();
  };
  return (
    <form id="sign-in" class="panel narrow" onSubmit={use}>
      <h1>This service asks for a token</h1>
      {wrong ? (
        <p class="notice" role="alert">{wrong}</p>
      ) : (
        tokenRefused.value && <p class="notice" role="alert">The service does not take that token. It may have been revoked, or have expired.</p>
      )}
      <p>It is kept in this tab only, and sent with every call as a bearer token.</p>
      <label for="token">Token</label>
      <div class="row">
        <input id="token" ref={token} type="password" autocomplete="off" required />
        <button class="primary" type="submit">Use it</button>
      </div>
    </form>
  );
}

export const OtherToken = () => <button class="small" type="button" onClick={forgetToken}>Use another token</button>;
