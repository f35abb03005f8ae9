// Everything a page does by itself: times in the reader's zone, charts, keys, and staying up to date.
import { drawCharts } from "./charts.js";
import { listenForKeys } from "./keys.js";
import { stayLive } from "./live.js";
import { showStream } from "./stream.js";
import { toggleTheme } from "./memory.js";
import { localTimes } from "./times.js";
import { helpWithForms } from "./forms.js";

// What was done is told once: reloading or sharing the address does not tell it again.
const address = new URL(location.href);
if (address.searchParams.has("did")) {
  address.searchParams.delete("did");
  address.searchParams.delete("n");
  history.replaceState(null, "", address);
}

localTimes(document);
drawCharts(document);
helpWithForms();
listenForKeys({ toggleTheme });
document.getElementById("theme")?.addEventListener("click", toggleTheme);
stayLive((fresh) => localTimes(fresh));
showStream();
