// Turn one piece of a page into its newer version without replacing what is the same: focus, selection,
// scroll positions, open <details> and popovers, and what somebody is typing all stay.

// Attributes that the reader changes, not the server.
const OWN = new Set(["open", "data-current", "data-busy", "data-drawn"]);
const typed = (field) =>
  field === document.activeElement ||
  (field.type === "checkbox" || field.type === "radio"
    ? field.checked !== field.defaultChecked
    : field.localName === "select"
      ? [...field.options].some((option) => option.selected !== option.defaultSelected) &&
        [...field.options].some((option) => option.defaultSelected)
      : field.value !== field.defaultValue);

/** Make `old` look like `fresh`. */
export function morph(old, fresh) {
  const active = document.activeElement;
  turn(old, fresh);
  const lost = active && active !== document.activeElement && active.isConnected;
  if (lost) active.focus({ preventScroll: true });
}

function turn(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE || old.nodeType === Node.COMMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (old.isEqualNode(fresh)) return;
  const field = old.matches?.("input, textarea, select");
  const keep = field && typed(old);
  attributes(old, fresh, keep);
  if (old.hasAttribute("data-drawn")) return; // a script draws what is in it, from its attributes
  if (field) {
    if (!keep && "value" in fresh && old.type !== "checkbox") old.value = fresh.value;
    if (old.localName !== "select" || keep) return;
  }
  children(old, fresh);
}

function attributes(old, fresh, keep) {
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !OWN.has(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (OWN.has(name) || (keep && (name === "value" || name === "checked"))) continue;
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
}

const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.id || node.dataset?.key || "" : "");

/** Those with a key (an id or data-key) are found wherever they stand now; the others by their order. */
function children(old, fresh) {
  const keyed = new Map();
  for (const child of old.children) if (keyOf(child)) keyed.set(keyOf(child), child);
  const wanted = new Set([...fresh.children].map(keyOf));
  let here = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const key = keyOf(next);
    while (here && keyOf(here) && !wanted.has(keyOf(here))) here = drop(here);
    const match = key ? keyed.get(key) : alike(here, next) ? here : null;
    if (match && match.nodeName === next.nodeName) {
      if (match === here) here = here.nextSibling;
      else old.insertBefore(match, here);
      turn(match, next);
    } else {
      old.insertBefore(document.importNode(next, true), here);
    }
  }
  while (here) here = drop(here);
}

const alike = (here, next) =>
  here && here.nodeType === next.nodeType && here.nodeName === next.nodeName && !keyOf(here);

function drop(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}
