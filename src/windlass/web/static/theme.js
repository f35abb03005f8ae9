// Runs before the first paint: the theme that was chosen, if any, and word to the style sheet that scripts run.
(() => {
  const root = document.documentElement;
  root.dataset.js = "";
  try {
    const chosen = localStorage.getItem("windlass.theme");
    if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
  } catch {
    // Storage may be forbidden; then the system's theme it is.
  }
})();
