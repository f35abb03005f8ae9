// What a job emits, as it comes: text flows, other values have lines of their own, new runs are marked. The
// server says where each event stands, so a connection that was lost goes on where it stopped. Everything is
// written as text. Of a long stream the page keeps the end.
const MAX_LINES = 2000;
const MAX_PIECES = 100;
const HARMFUL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

const harmless = (text) =>
  text.replace(HARMFUL, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);

export function showStream() {
  const card = document.getElementById("stream");
  if (!card) return;
  const box = card.querySelector("pre");
  const told = card.querySelector(".told");
  let run = 0;
  let seen = 0;
  let source = null;
  let ended = false;
  let flowing = null;

  function line(className, words) {
    const made = document.createElement("span");
    made.className = className;
    made.textContent = words;
    box.append(made);
    flowing = null;
    while (box.childElementCount > MAX_LINES) box.firstElementChild.remove();
    return made;
  }

  function show(event) {
    if (event.position <= seen) return;
    seen = event.position;
    card.hidden = false;
    if (event.gone) line("line soft", `${event.gone} events before this are gone`);
    const again = event.run !== run && (run || event.run > 1);
    if (again) line("line soft", `run ${event.run}, attempt ${event.attempt}`);
    run = event.run;
    if (event.sealed) line("line", event.sealed);
    else if (typeof event.value !== "string") line("line", harmless(JSON.stringify(event.value)));
    else {
      flowing ??= line("", "");
      flowing.append(harmless(event.value));
      if (flowing.childNodes.length >= MAX_PIECES) flowing = null;
    }
  }

  function open() {
    if (source || ended || document.hidden) return;
    source = new EventSource(`${card.dataset.events}?after=${seen}`);
    source.onmessage = (message) => {
      const low = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
      show(JSON.parse(message.data));
      told.textContent = "live";
      if (low) box.scrollTop = box.scrollHeight;
    };
    source.addEventListener("end", () => {
      ended = true;
      told.textContent = "ended";
      close();
    });
    source.onerror = () => {
      if (source?.readyState === EventSource.CLOSED) source = null;
    };
  }

  function close() {
    source?.close();
    source = null;
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  document.addEventListener("windlass:fresh", open);
  addEventListener("pagehide", close);
  open();
}
