// Runs before the first paint: sets the chosen theme, if any, and tells the style sheet that scripts run.
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
