// Live updates: on each tick of the stream the page fetches its own address again and updates the regions
// marked data-live. At most once in two seconds, and not while the page is hidden. Without a stream it polls
// every two seconds. A page that could not be shown because the store was away is loaded again (data-retry).
import { morph } from "./morph.js";
import { recall, remember } from "./memory.js";
import { clockTime } from "./times.js";

const MIN_PAUSE = 2000;
const MAX_PAUSE = 30000;

export function stayLive(prepare) {
  const pulse = document.getElementById("pulse");
  if (!pulse || !document.querySelector("[data-live]")) return;
  const text = pulse.querySelector(".text");
  const when = pulse.querySelector(".when");
  const button = document.getElementById("live");
  const root = document.documentElement.dataset.root;
  const retrying = Boolean(document.querySelector("[data-retry]"));
  let paused = !retrying && recall("live") === "paused";
  let stream = null;
  let timer = 0;
  let asking = null;
  let last = Date.now();
  let good = Date.now();
  let failures = 0;

  function show(state, words, time) {
    if (pulse.dataset.state !== state) pulse.dataset.state = state;
    if (text.textContent !== words) text.textContent = words;
    when.textContent = time;
    const label = paused ? "Resume live updates" : "Pause live updates";
    if (button.getAttribute("aria-label") !== label) {
      button.setAttribute("aria-label", label);
      button.title = label;
      button.setAttribute("aria-pressed", String(paused));
    }
  }

  const updated = () => show("live", "live", `· updated ${clockTime(new Date(good))}`);
  const stale = () =>
    show("stale", retrying ? "no answer yet" : `stale since ${clockTime(new Date(good))}`, "");

  async function refresh() {
    clearTimeout(timer);
    timer = 0;
    if (asking || paused || document.hidden) return;
    asking = new AbortController();
    const limit = setTimeout(() => asking?.abort(), 10000);
    try {
      const answer = await fetch(location.href, {
        headers: { Accept: "text/html" },
        signal: asking.signal,
        cache: "no-store",
        credentials: "same-origin",
      });
      if (!answer.ok && answer.status !== 404) throw new Error(`status ${answer.status}`);
      if (retrying) {
        close();
        location.reload();
        return;
      }
      if (!paused && !document.hidden) {
        apply(await answer.text());
        good = Date.now();
        failures = 0;
        updated();
      }
    } catch {
      failures += 1;
      if (!paused && !document.hidden) stale();
    } finally {
      clearTimeout(limit);
      asking = null;
      last = Date.now();
    }
    if (failures || !stream || stream.readyState !== EventSource.OPEN) {
      later(Math.min(MIN_PAUSE * 2 ** Math.min(failures, 4), MAX_PAUSE));
    }
  }

  function apply(html) {
    const fresh = new DOMParser().parseFromString(html, "text/html");
    prepare(fresh);
    for (const region of document.querySelectorAll("[data-live]")) {
      const next = region.id && fresh.getElementById(region.id);
      if (next) morph(region, next);
    }
    if (document.title !== fresh.title && fresh.title) document.title = fresh.title;
    document.dispatchEvent(new CustomEvent("windlass:fresh"));
  }

  function later(wait) {
    if (!timer && !paused && !document.hidden) timer = setTimeout(refresh, wait);
  }
  const tick = () => later(Math.max(MIN_PAUSE - (Date.now() - last), 0));

  function open() {
    if (stream || paused || document.hidden) return;
    stream = new EventSource(`${root}/api/stream`);
    stream.addEventListener("tick", tick);
    stream.onerror = () => {
      if (stream?.readyState === EventSource.CLOSED) stream = null;
      later(MIN_PAUSE);
    };
  }

  function close() {
    stream?.close();
    stream = null;
    clearTimeout(timer);
    timer = 0;
    asking?.abort();
  }

  function wake() {
    open();
    refresh();
  }

  button.addEventListener("click", () => {
    paused = !paused;
    remember("live", paused ? "paused" : null);
    if (paused) {
      close();
      show("paused", "paused", `· ${clockTime(new Date(good))}`);
    } else wake();
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : wake()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => event.persisted && wake());

  button.hidden = retrying;
  if (retrying) {
    stale();
    open();
    later(MIN_PAUSE);
  } else if (paused) show("paused", "paused", `· ${clockTime(new Date(good))}`);
  else {
    updated();
    open();
    later(MIN_PAUSE);
  }
}
