// Keys for those who like them: none of them works while somebody types, or with a modifier.

const PLACES = {
  o: "/", q: "/queues", j: "/jobs", p: "/parents", d: "/dead", s: "/schedules", b: "/budgets",
  t: "/tasks", w: "/workers", m: "/operations", e: "/events",
};
const PATIENCE = 1200;

const typing = (target) =>
  target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]");

export function listenForKeys({ toggleTheme }) {
  const root = document.documentElement.dataset.root;
  const help = document.getElementById("help");
  let going = 0;

  document.getElementById("keys")?.addEventListener("click", () => help?.showModal());

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (typing(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (help?.open || document.querySelector(".ask:popover-open")) return;
    const went = Date.now() - going < PATIENCE;
    going = 0;
    if (went && event.key in PLACES) {
      event.preventDefault();
      location.href = root + PLACES[event.key];
    } else if (event.key === "g") going = Date.now();
    else if (act(event.key)) event.preventDefault();
  });

  function act(key) {
    if (key === "/") {
      const field = document.getElementById("search");
      field?.focus();
      field?.select();
    } else if (key === "?") help?.showModal();
    else if (key === "t") toggleTheme();
    else if (key === "j") move(1);
    else if (key === "k") move(-1);
    else if (key === "x") return check();
    else if (key === "Enter" || key === "o") return open(key);
    else return false;
    return true;
  }
}

const rows = () =>
  [...document.querySelectorAll("main table[data-rows] > tbody > tr")]
    .filter((row) => row.querySelector("a"));
const current = () => document.querySelector("tr[data-current]");

function move(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(current());
  const last = all.length - 1;
  const next = all[at < 0 ? (step > 0 ? 0 : last) : Math.min(Math.max(at + step, 0), last)];
  current()?.removeAttribute("data-current");
  next.setAttribute("data-current", "");
  next.querySelector("a[data-open], a").focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function open(key) {
  const row = current();
  if (!row || (key === "Enter" && document.activeElement?.closest("a, button, summary"))) return false;
  row.querySelector("a[data-open], a")?.click();
  return true;
}

function check() {
  const box = current()?.querySelector("input[type=checkbox]");
  box?.click();
  return Boolean(box);
}
