// Numbers as people read them, and elements without markup in strings.
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== "") made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function drawn(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function fill(parent, ...children) {
  parent.replaceChildren(...children);
}

// An unchanged text is left alone, so that screen readers do not say it again.
export function tell(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Children that say the same stay the same elements: focus, scroll and selection outlast a refresh.
const saying = new WeakMap();

export function keep(parent, items, make) {
  const wanted = items.map((item) => JSON.stringify(item));
  const known = new Map();
  const wants = new Set(wanted);
  for (const child of [...parent.children]) {
    const says = saying.get(child);
    if (wants.has(says) && !known.has(says)) known.set(says, child); else child.remove();
  }
  let next = parent.firstElementChild;
  wanted.forEach((says, index) => {
    const child = known.get(says) ?? make(items[index]);
    saying.set(child, says);
    if (child === next) next = next.nextElementSibling; else parent.insertBefore(child, next);
  });
}

function scaled(value, units, step = 1000) {
  let size = Math.abs(value);
  let unit = 0;
  while (size >= step * 0.9995 && unit < units.length - 1) { size /= step; unit += 1; }
  const digits = size === 0 || size >= 99.95 || Number.isInteger(size) ? 0 : size >= 9.995 ? 1 : 2;
  return `${value < 0 ? "−" : ""}${size.toFixed(digits)} ${units[unit]}`;
}

export const bytes = (value) => (value == null ? "–" : scaled(value, ["B", "KB", "MB", "GB", "TB"]));
export const bits = (value) => (value == null ? "–" : scaled(value * 8, ["bit/s", "Kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]));
export const count = (value) => (value == null ? "–" : value.toLocaleString("en-GB").replaceAll(",", " "));
export const ratio = (value) => (value == null ? "–" : `${value < 100 ? value.toPrecision(3) : Math.round(value)}×`);

export function percent(value) {
  if (value == null) return "–";
  const hundred = value * 100;
  const digits = hundred === 0 || hundred >= 9.95 ? 0 : hundred >= 0.995 ? 1 : 2;
  return `${Number(hundred.toFixed(digits))} %`;
}

export function seconds(value) {
  if (value == null) return "–";
  if (value === 0) return "0 s";
  if (value < 1e-3) return `${(value * 1e6).toPrecision(3)} µs`;
  if (value < 1) return `${Number((value * 1e3).toPrecision(3))} ms`;
  return `${Number(value.toPrecision(3))} s`;
}

export function when(text) {
  const time = new Date(text);
  const today = new Date().toDateString() === time.toDateString();
  return today ? time.toLocaleTimeString() : time.toLocaleString();
}

export const watermark = (mark) => `${bytes(mark.kmin_bytes)} / ${bytes(mark.kmax_bytes)} / ${percent(mark.pmax)}`;
