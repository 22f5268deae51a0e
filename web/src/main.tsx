// Starts the page.
import { render } from "preact";
import { follow, listening } from "./service/events.ts";
import { refreshAll } from "./service/live.ts";
import { App } from "./shell/app.tsx";
import "uplot/dist/uPlot.min.css";
import "./style/fonts.css";
import "./style/base.css";
import "./style/shell.css";
import "./style/parts.css";
import "./style/views.css";
import "./style/studies.css";

const root = document.getElementById("page");
if (root) render(<App />, root);
void follow();
listening.subscribe(refreshAll); // the service may have gone, or events were missed
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) refreshAll();
});
