// Lines over time, drawn as SVG from the JSON in data-chart:
//   { at: [seconds …], unit: "ms" | "s" | "bytes" | "%" | "jobs", series: [{ name, ink, area, values: [number | null …] }] }
// A crosshair follows the pointer, and the arrow keys while the chart has the focus; it tells the values of a
// moment, aloud too. The same numbers stand in a table below each chart, which needs no script.
import { clockTime, shortTime } from "./times.js";

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 46;
const BOTTOM = 20;
const TOP = 8;
const RIGHT = 6;
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const charts = new WeakMap();

export function drawCharts(where) {
  for (const plot of where.querySelectorAll("[data-chart]")) charts.set(plot, new Chart(plot));
}

class Chart {
  constructor(plot) {
    this.plot = plot;
    plot.setAttribute("data-drawn", "");
    this.svg = element("svg", { "aria-hidden": "true", focusable: "false" });
    this.readout = document.createElement("div");
    this.readout.className = "readout";
    this.readout.hidden = true;
    this.spoken = document.createElement("output");
    this.spoken.className = "hush";
    plot.replaceChildren(this.svg, this.readout, this.spoken);
    this.at = null;
    this.read();
    new ResizeObserver(() => this.draw()).observe(plot);
    new MutationObserver(() => this.read()).observe(plot, { attributeFilter: ["data-chart"] });
    plot.addEventListener("pointermove", (event) => this.point(event.offsetX, event));
    plot.addEventListener("pointerleave", () => this.show(null));
    plot.addEventListener("blur", () => this.show(null));
    plot.addEventListener("keydown", (event) => this.key(event));
  }

  read() {
    this.data = JSON.parse(this.plot.dataset.chart);
    this.draw();
  }

  draw() {
    const { at, series } = this.data;
    this.width = this.plot.clientWidth;
    this.height = this.plot.clientHeight;
    if (!this.width || !this.height) return;
    const known = series.flatMap((one) => one.values).filter((value) => value !== null);
    const ticks = steps(Math.max(0, ...known), this.data.unit);
    this.top = ticks.at(-1);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.cross = element("g");
    const lines = series.flatMap((one) => this.line(one));
    this.svg.replaceChildren(...this.grid(ticks), ...this.hours(at), ...lines, this.cross);
    if (!known.length || !at.length) {
      this.svg.append(this.text(this.width / 2, this.height / 2, "no data in this range", "middle"));
    }
    this.show(this.at, false);
  }

  x(index) {
    const last = Math.max(this.data.at.length - 1, 1);
    return LEFT + ((this.width - LEFT - RIGHT) * index) / last;
  }

  y(value) {
    return TOP + (this.height - TOP - BOTTOM) * (1 - value / this.top);
  }

  text(x, y, words, anchor) {
    const text = element("text", { x, y, "text-anchor": anchor });
    text.textContent = words;
    return text;
  }

  grid(ticks) {
    return ticks.flatMap((tick) => [
      element("line", {
        class: "grid-line", x1: LEFT, x2: this.width - RIGHT, y1: this.y(tick), y2: this.y(tick),
      }),
      this.text(LEFT - 8, this.y(tick) + 4, amount(tick, this.data.unit), "end"),
    ]);
  }

  hours(at) {
    if (at.length < 2) return [];
    const count = Math.max(2, Math.min(6, Math.floor((this.width - LEFT) / 90)));
    const long = at.at(-1) - at[0] > 86400 * 1.5;
    return Array.from({ length: count }, (_, place) => {
      const index = Math.round((place * (at.length - 1)) / (count - 1));
      const date = new Date(at[index] * 1000);
      const words = long
        ? date.toLocaleDateString(undefined, { month: "short", day: "numeric" })
        : clockTime(date).slice(0, 5);
      const anchor = place === 0 ? "start" : place === count - 1 ? "end" : "middle";
      return this.text(this.x(index), this.height - 4, words, anchor);
    });
  }

  line({ ink, area, values }) {
    const runs = [];
    values.forEach((value, index) => {
      if (value === null) return;
      if (index === 0 || values[index - 1] === null) runs.push([]);
      runs.at(-1).push([this.x(index), this.y(value)]);
    });
    const floor = this.y(0);
    return runs.flatMap((run) => {
      if (run.length === 1) {
        return [element("circle", { class: `dot ink-${ink}`, cx: run[0][0], cy: run[0][1], r: 2.5 })];
      }
      const path = `M${run.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}`;
      const drawn = [element("path", { class: `series ink-${ink}`, d: path })];
      if (area) {
        const d = `${path}L${run.at(-1)[0].toFixed(1)} ${floor}L${run[0][0].toFixed(1)} ${floor}Z`;
        drawn.unshift(element("path", { class: `fill ink-${ink}`, d }));
      }
      return drawn;
    });
  }

  point(x, event) {
    if (event.target.closest(".readout")) return;
    const last = this.data.at.length - 1;
    const share = (x - LEFT) / (this.width - LEFT - RIGHT);
    this.show(last < 0 ? null : Math.min(Math.max(Math.round(share * last), 0), last));
  }

  key(event) {
    const last = this.data.at.length - 1;
    if (last < 0) return;
    const here = this.at ?? last;
    const to = {
      ArrowLeft: here - 1, ArrowRight: here + 1, PageUp: here - 10, PageDown: here + 10,
      Home: 0, End: last, Escape: null,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.show(to === null ? null : Math.min(Math.max(to, 0), last), true);
  }

  show(index, aloud = false) {
    this.at = index !== null && index < this.data.at.length ? index : null;
    this.cross?.replaceChildren();
    this.readout.hidden = this.at === null;
    if (this.at === null || !this.cross) return;
    const { at, series, unit } = this.data;
    const x = this.x(this.at);
    this.cross.append(element("line", { class: "cross", x1: x, x2: x, y1: TOP, y2: this.height - BOTTOM }));
    const when = document.createElement("span");
    when.className = "faint";
    when.textContent = shortTime(new Date(at[this.at] * 1000));
    const lines = series.map(({ name, ink, values }) => {
      const value = values[this.at] ?? null;
      if (value !== null) {
        this.cross.append(element("circle", { class: `dot ink-${ink}`, cx: x, cy: this.y(value), r: 3.5 }));
      }
      const line = document.createElement("span");
      const swatch = element("svg", { class: "swatch", viewBox: "0 0 14 8", "aria-hidden": "true" });
      swatch.append(element("line", { class: `series ink-${ink}`, x1: 0, x2: 14, y1: 4, y2: 4 }));
      const text = document.createElement("b");
      text.textContent = value === null ? "–" : amount(value, unit);
      line.append(swatch, name, text);
      return line;
    });
    this.readout.replaceChildren(when, ...lines);
    const left = x > this.width / 2;
    this.readout.style.left = left ? "auto" : `${x + 10}px`;
    this.readout.style.right = left ? `${this.width - x + 10}px` : "auto";
    if (aloud) {
      const shown = (value) => (value == null ? "no data" : amount(value, unit));
      const text = series.map(({ name, values }) => `${name} ${shown(values[this.at])}`);
      this.spoken.textContent = [when.textContent, ...text].join(", ");
    }
  }
}

function element(name, attributes = {}) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/** Round numbers from 0 to a little above the highest value. */
function steps(most, unit) {
  if (most <= 0) return [0, 1];
  const rough = most / 3;
  const power = unit === "bytes" ? 2 ** Math.floor(Math.log2(rough)) : 10 ** Math.floor(Math.log10(rough));
  const whole = unit === "jobs" ? 1 : 0;
  const sizes = (unit === "bytes" ? [1, 2] : [1, 2, 2.5, 5, 10]).map((factor) => factor * power);
  const step = Math.max(sizes.find((size) => size >= rough), whole);
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, index) => index * step);
}

const digits = (value, most = 1) =>
  value.toLocaleString("en", { maximumFractionDigits: value >= 100 ? 0 : most });

export function amount(value, unit) {
  if (unit === "ms") {
    if (value >= 60000) return `${digits(value / 60000)} min`;
    return value >= 1000 ? `${digits(value / 1000, 2)} s` : `${digits(value, value < 10 ? 2 : 1)} ms`;
  }
  if (unit === "s") {
    if (value >= 5400) return `${digits(value / 3600)} h`;
    return value >= 120 ? `${digits(value / 60)} min` : `${digits(value)} s`;
  }
  if (unit === "%") return `${digits(value)} %`;
  if (unit === "bytes") {
    const power = value < 1 ? 0 : Math.min(Math.floor(Math.log2(value) / 10), BYTES.length - 1);
    return `${digits(value / 1024 ** power)} ${BYTES[power]}`;
  }
  if (value >= 1e6) return `${digits(value / 1e6, 2)} M`;
  if (value >= 1e4) return `${digits(value / 1e3)} k`;
  return digits(value, 2);
}
