// The fabric as a map. What it draws is worked out in map.ts.
import { Panel } from "../../parts/panel.tsx";
import type { State, Watermark } from "../../service/documents.ts";

export function FabricPanel({ state }: { state: State; incumbent: Watermark | undefined }) {
  return <Panel id="fabric" title="Fabric" note={`${state.topology} topology`}>{null}</Panel>;
}
