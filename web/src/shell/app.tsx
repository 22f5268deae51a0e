// The frame around every view: header, notices, the view that the address names, footer.
import { useLayoutEffect, useRef } from "preact/hooks";
import { Asking } from "../parts/ask.tsx";
import { place } from "../router.ts";
import { asksForToken, keepsToken } from "../service/client.ts";
import { asOf } from "../service/fresh.ts";
import { views } from "../views.ts";
import { Header } from "./header.tsx";
import { Notices } from "./notices.tsx";
import { OtherToken, SignIn } from "./sign-in.tsx";

export function App() {
  const { view: path, rest } = place.value;
  const view = views.find((one) => one.path === path) ?? views[0];
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  // With the view itself, not after its first picture: a reader quick to the next link keeps the focus there.
  useLayoutEffect(() => {
    document.title = `${view?.name} · ecntwin`;
    if (!first.current) {
      main.current?.focus();
      scrollTo(0, 0);
    }
    first.current = false;
  }, [view, rest.join("/")]);
  if (!view) return null;
  const Shown = view.component;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>
        Skip to {view.name}
      </a>
      <Header current={view} />
      <main id="main" ref={main} tabIndex={-1} class={`view ${view.path} ${asOf.value === null ? "" : "old"}`}>
        <Notices />
        {asksForToken.value ? <SignIn /> : <Shown key={`${view.path}/${rest.join("/")}`} rest={rest} />}
      </main>
      <footer>
        <a href="/docs">Routes</a>
        <a href="/metrics">Metrics</a>
        <a href="/readyz">Readiness</a>
        <a href="/assets/third-party-licences.txt">Licences</a>
        {!asksForToken.value && keepsToken() && <OtherToken />}
      </footer>
      <Asking />
    </>
  );
}
