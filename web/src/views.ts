// The views, in the order of the navigation. A new one is a folder under views/ and a line here.
import type { ComponentType } from "preact";
import { act } from "./views/act/view.tsx";
import { history } from "./views/history/view.tsx";
import { now } from "./views/now/view.tsx";
import { whatIf } from "./views/whatif/view.tsx";
import { why } from "./views/why/view.tsx";

export interface View {
  path: string; // #/path, and what follows it in `rest`
  name: string;
  component: ComponentType<{ rest: readonly string[] }>;
}

export const views: readonly View[] = [now, why, act, whatIf, history];
