// The freeze: whether switches may be set, and the button that changes it.
import { confirmed } from "/assets/ask.js";
import { tell, when } from "/assets/format.js";
import { act, call, orNothing } from "/assets/service.js";

const button = document.getElementById("freeze");
const state = document.getElementById("frozen");
let frozen = false;

export async function showFreeze() {
  const found = await orNothing(call("/v1/freeze"));
  if (!found) return;
  frozen = found.frozen;
  tell(state, frozen ? `Frozen by ${found.by}, ${when(found.at)}` : "Not frozen");
  state.className = `pill ${frozen ? "frozen" : ""}`;
  tell(button, frozen ? "Thaw switches" : "Freeze switches");
  button.hidden = state.hidden = false;
}

button.addEventListener("click", async () => {
  const wanted = !frozen;
  const yes = await confirmed(wanted
    ? {
        title: "Freeze switches?",
        text: "No switch is set and no rollout begins until somebody thaws them, also after a restart. Undoing goes on.",
        yes: "Freeze",
      }
    : { title: "Thaw switches?", text: "Switches may be set again, and a rollout under way goes on.", yes: "Thaw" });
  if (!yes) return;
  await act(button, "/v1/freeze", "PUT", { frozen: wanted });
  await showFreeze();
});
