// Gives the keyboard a place to go on from where the button that was pressed has gone.
const LOOKS = 60;
const EVERY_MS = 50;

// To the element with that id once it is there, unless somebody has moved on meanwhile.
export function focusOn(id: string, looks = LOOKS): void {
  const at = document.activeElement;
  const lost = at === null || at === document.body || (at instanceof HTMLButtonElement && at.disabled);
  const wanted = document.getElementById(id);
  if (lost && wanted) {
    wanted.tabIndex = -1;
    wanted.focus();
  } else if (looks > 0) setTimeout(() => focusOn(id, looks - 1), EVERY_MS);
}
