// Small comforts of forms: tick all rows, say how many are ticked, and send nothing twice.

export function helpWithForms() {
  document.addEventListener("change", (event) => {
    const box = event.target;
    if (box.matches?.("input[data-all]")) {
      for (const one of box.closest("table").querySelectorAll("td.pick input")) one.checked = box.checked;
    }
    if (box.matches?.("td.pick input, input[data-all]")) showCount(box.form);
    if (box.matches?.("select[data-submit]")) box.form.requestSubmit();
  });
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post") return;
    if (form.hasAttribute("data-busy")) event.preventDefault();
    else form.setAttribute("data-busy", "");
  });
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-busy]")) form.removeAttribute("data-busy");
  });
  document.addEventListener("windlass:fresh", () => {
    for (const form of document.querySelectorAll("form[data-picks]")) showCount(form);
  });
}

function showCount(form) {
  const text = form?.querySelector("[data-picked]");
  if (!text) return;
  const count = form.querySelectorAll("td.pick input:checked").length;
  const words = count ? `${count.toLocaleString("en")} selected` : "none selected";
  if (text.textContent !== words) text.textContent = words;
}
