// What the browser remembers for one reader: the theme, and whether pages stay live. Never anything secret.

export function recall(name) {
  try {
    return localStorage.getItem(`windlass.${name}`);
  } catch {
    return null;
  }
}

export function remember(name, value) {
  try {
    if (value === null) localStorage.removeItem(`windlass.${name}`);
    else localStorage.setItem(`windlass.${name}`, value);
  } catch {
    // Storage may be forbidden; the choice then lasts as long as the page.
  }
}

export function toggleTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  remember("theme", root.dataset.theme);
}
