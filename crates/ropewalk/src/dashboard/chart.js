// Line charts of the last ten minutes, as SVG. Owns drawing, the cursor and the words that say what is drawn.

import { CHART_MS } from "./model.js";
import { el, setText, svg } from "./dom.js";
import { clock } from "./format.js";

const HEIGHT = 190;
const MARGIN = { left: 64, right: 10, top: 10, bottom: 22 };
const GRID_LINES = 4;
/** Pause between two changes of the words for screen readers. */
const WORDS_MS = 10_000;
/** Marks of the time axis, on a wide chart and on a narrow one. */
const MINUTES = [10, 8, 6, 4, 2, 0];
const FEW_MINUTES = [10, 5, 0];
const NARROW = 420;

/** The next round number of `base` above a value: 1, 2 or 5 times a power. */
function ceiling(value, base) {
  if (!(value > 0)) return 1;
  const step = base === 2 ? 1024 : 1000;
  let unit = 1;
  while (value / unit >= step) unit *= step;
  const rounds = [1, 2, 4, 8, 10, 20, 40, 80, 100, 200, 400, 800, 1000];
  return unit * (rounds.find((round) => value / unit <= round) ?? step);
}

export class LineChart {
  /** `series`: key, label and class of each line; `base` 2 for bytes; `signal` ends it. */
  constructor(place, { name, history, series, format, signal, base = 10, least = 0 }) {
    Object.assign(this, { name, history, series, format, base, least, cursor: null, wordsAt: 0, width: 0 });
    this.grid = svg("g", { class: "grid" });
    this.lines = svg("g", {});
    this.paths = series.map((one, i) => {
      const area = i === 0 ? svg("path", { class: `area ${one.class}` }) : null;
      const line = svg("path", { class: `line ${one.class}` });
      this.lines.append(...(area ? [area, line] : [line]));
      return { area, line };
    });
    this.mark = svg("line", { class: "cursor", visibility: "hidden" });
    this.svg = svg("svg", { class: "chart", role: "img", tabindex: "0", height: HEIGHT }, this.grid, this.lines, this.mark);
    this.values = series.map(() => el("strong"));
    const keys = series.map((one, i) =>
      el("span", { class: "key" }, this.#sample(one), `${one.label} `, this.values[i]),
    );
    this.when = el("span", { class: "muted" });
    place.replaceChildren(this.svg, el("p", { class: "legend" }, ...keys, this.when));
    this.#listen();
    const observer = new ResizeObserver(() => this.#resize());
    observer.observe(place);
    signal.addEventListener("abort", () => observer.disconnect());
  }

  #sample(one) {
    const line = svg("line", { x1: 1, y1: 5, x2: 21, y2: 5, class: `line ${one.class}` });
    return svg("svg", { class: "sample", width: 22, height: 10, "aria-hidden": "true" }, line);
  }

  #listen() {
    this.svg.addEventListener("pointermove", (event) => {
      const x = event.clientX - this.svg.getBoundingClientRect().left;
      this.#look(this.end - CHART_MS + ((x - MARGIN.left) / this.#inner()) * CHART_MS);
    });
    this.svg.addEventListener("pointerleave", () => this.#look(null));
    this.svg.addEventListener("blur", () => this.#look(null));
    this.svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -5000, ArrowRight: 5000 }[event.key];
      if (event.key === "Escape") this.#look(null);
      if (!step) return;
      event.preventDefault();
      this.#look(Math.max(this.end - CHART_MS, (this.cursor ?? this.end) + step));
    });
  }

  #look(at) {
    this.cursor = at !== null && at < this.end ? at : null;
    this.draw();
  }

  #inner() {
    return Math.max(1, this.width - MARGIN.left - MARGIN.right);
  }

  #resize() {
    const width = Math.floor(this.svg.parentElement.clientWidth);
    if (width === this.width || width <= 0) return;
    this.width = width;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.svg.setAttribute("width", width);
    this.draw();
  }

  /** Draws what the history has now. */
  draw() {
    const last = this.history.last();
    if (last === null || this.width <= 0) return;
    this.end = this.history.times[last];
    const since = this.end - CHART_MS;
    let most = 0;
    this.history.each(since, (_, i) => {
      for (const one of this.series) most = Math.max(most, this.history.values[one.key][i] || 0);
    });
    const top = ceiling(Math.max(most, this.least), this.base);
    const height = HEIGHT - MARGIN.top - MARGIN.bottom;
    const x = (at) => MARGIN.left + ((at - since) / CHART_MS) * this.#inner();
    const y = (value) => MARGIN.top + height * (1 - value / top);
    this.#frame(top, x, y);
    this.series.forEach((one, i) => this.#line(one, this.paths[i], since, x, y));
    this.#legend(last, x);
    this.#words(since);
  }

  #frame(top, x, y) {
    const frame = `${top} ${this.width}`;
    if (this.framed === frame) return;
    this.framed = frame;
    const parts = [];
    for (let i = 0; i <= GRID_LINES; i += 1) {
      const value = (top * i) / GRID_LINES;
      const at = y(value).toFixed(1);
      parts.push(svg("line", { x1: MARGIN.left, x2: this.width - MARGIN.right, y1: at, y2: at }));
      const label = svg("text", { x: MARGIN.left - 8, y: at, "text-anchor": "end", dy: "0.32em" });
      label.textContent = value === 0 ? "0" : this.format(value);
      parts.push(label);
    }
    const since = this.end - CHART_MS;
    for (const minutes of this.width < NARROW ? FEW_MINUTES : MINUTES) {
      const anchor = minutes === 0 ? "end" : minutes === 10 ? "start" : "middle";
      const at = x(since + CHART_MS - minutes * 60_000).toFixed(1);
      const label = svg("text", { x: at, y: HEIGHT - 5, "text-anchor": anchor });
      label.textContent = minutes === 0 ? "now" : `${minutes} min`;
      parts.push(label);
    }
    this.grid.replaceChildren(...parts);
  }

  #line(one, { area, line }, since, x, y) {
    const pieces = [];
    let piece = [];
    this.history.each(since, (at, i) => {
      const value = this.history.values[one.key][i];
      if (Number.isFinite(value)) piece.push([x(at).toFixed(1), y(value).toFixed(1)]);
      else if (piece.length > 0) {
        pieces.push(piece);
        piece = [];
      }
    });
    if (piece.length > 0) pieces.push(piece);
    const path = (points) => `M${points.map((p) => p.join(" ")).join("L")}`;
    line.setAttribute("d", pieces.map((p) => path(p)).join(""));
    const floor = y(0).toFixed(1);
    area?.setAttribute("d", pieces.map((p) => `${path(p)}V${floor}H${p[0][0]}Z`).join(""));
  }

  /** The values now, or those where the cursor is. */
  #legend(last, x) {
    let where = last;
    if (this.cursor !== null) {
      this.history.each(this.cursor, (_, i) => {
        if (where === last) where = i;
      });
    }
    this.series.forEach((one, i) => setText(this.values[i], this.format(this.history.values[one.key][where])));
    const at = this.history.times[where];
    setText(this.when, this.cursor === null ? "" : `at ${clock(at)}`);
    this.mark.setAttribute("visibility", this.cursor === null ? "hidden" : "visible");
    for (const [name, value] of [["x1", x(at)], ["x2", x(at)], ["y1", MARGIN.top], ["y2", HEIGHT - MARGIN.bottom]]) {
      this.mark.setAttribute(name, value.toFixed(1));
    }
  }

  /** The same for those who do not see it. */
  #words(since) {
    if (this.end - this.wordsAt < WORDS_MS && this.wordsAt <= this.end) return;
    this.wordsAt = this.end;
    const texts = this.series.map((one) => {
      let [total, points, most, now] = [0, 0, 0, NaN];
      this.history.each(since, (_, i) => {
        const value = this.history.values[one.key][i];
        if (!Number.isFinite(value)) return;
        [total, points, most, now] = [total + value, points + 1, Math.max(most, value), value];
      });
      const mean = points > 0 ? total / points : NaN;
      return `${one.label}: now ${this.format(now)}, mean ${this.format(mean)}, highest ${this.format(most)}`;
    });
    this.svg.setAttribute("aria-label", `${this.name}, last 10 minutes. ${texts.join(". ")}.`);
  }
}
