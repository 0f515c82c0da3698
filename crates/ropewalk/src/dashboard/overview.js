// Owns four sections of the page: health, current numbers, charts and latencies.

import { $, Table, el, facts, icon, sentence, setText } from "./dom.js";
import { LineChart } from "./chart.js";
import { bytes, count, duration, micros, perSecond, percent, rate } from "./format.js";
import { members } from "./model.js";

const WORDS = { green: "green", yellow: "yellow", red: "red" };
const SAYS = {
  green: "All is well.",
  yellow: "No data are in danger. Something needs a look.",
  red: "Data are in danger or not served. Act now.",
};
/** Latencies are computed and drawn so often; each second would be hard to read. */
const LATENCY_DRAWN_MS = 2000;

export class Overview {
  constructor(model, signal) {
    this.model = model;
    this.told = "";
    this.latencyAt = 0;
    const history = model.history;
    this.charts = [
      new LineChart($("throughput"), {
        name: "Throughput of clients",
        history,
        signal,
        series: [
          { key: "read", label: "Read", class: "s1" },
          { key: "written", label: "Written", class: "s2" },
        ],
        format: rate,
        base: 2,
        least: 1024,
      }),
      new LineChart($("requests"), {
        name: "Requests at the metadata server",
        history,
        signal,
        series: [{ key: "requests", label: "Requests", class: "s3" }],
        format: perSecond,
        least: 1,
      }),
    ];
    this.latency = new Table($("latency"), {
      caption: "Latency by operation and transport",
      empty: "No request yet.",
      key: (row) => row.key,
      columns: [
        { label: "Operation", text: (row) => row.operation },
        { label: "Over", text: (row) => row.transport },
        { label: "Requests", number: true, text: (row) => perSecond(row.perSecond) },
        { label: "Median", number: true, text: (row) => micros(row.p50) },
        { label: "95 %", number: true, text: (row) => micros(row.p95) },
        { label: "99 %", number: true, text: (row) => micros(row.p99) },
        { label: "Since start", number: true, text: (row) => count(row.total) },
      ],
    });
  }

  /** Has the health drawn again, as when the connection is back. */
  forget() {
    this.told = "";
  }

  draw() {
    const { status, health } = this.model;
    if (!status) return;
    this.#health(health ?? { state: "unknown", reasons: [] });
    this.#facts(status);
    this.#tiles(status);
    for (const chart of this.charts) chart.draw();
    const now = Date.now();
    if (now - this.latencyAt >= LATENCY_DRAWN_MS) {
      this.latencyAt = now;
      const { seconds, rows } = this.model.latencies();
      this.latency.update(rows);
      const when = seconds < 55 ? `last ${duration(seconds)}` : "last minute";
      setText($("latency-when"), seconds > 0 ? when : "");
    }
  }

  #health({ state, reasons }) {
    const mark = JSON.stringify([state, reasons]);
    if (mark === this.told) return;
    this.told = mark;
    const word = WORDS[state] ?? "not known";
    $("health").dataset.level = state;
    $("health-icon").setAttribute("href", `#i-${WORDS[state] ?? "unknown"}`);
    setText($("health-word"), word);
    setText($("health-line"), SAYS[state] ?? "");
    const item = (reason) =>
      el(
        "li",
        { data: { level: reason.level } },
        icon(reason.level),
        el(
          "div",
          {},
          el("span", { class: "hidden-text", text: `${reason.level}: ` }),
          el("span", { class: "what" }, ...sentence(reason.text), ". "),
          el("span", { class: "todo" }, ...sentence(reason.action)),
        ),
      );
    $("health-reasons").replaceChildren(...reasons.map(item));
    const chip = $("state-chip");
    chip.dataset.level = state;
    chip.replaceChildren(icon(WORDS[state] ?? "unknown"), el("span", { text: word }));
    document.title = `${word[0].toUpperCase()}${word.slice(1)} – Ropewalk`;
    const first = reasons[0] ? ` ${reasons[0].text}.` : "";
    setText($("live"), `Health is ${word}.${first}`);
  }

  #facts(status) {
    const mount = status.advertise?.length ? status.advertise : status.listen ?? [];
    facts($("facts"), [
      ["Cluster", status.cluster_id || "–"],
      ["Mount from", mount.join(" ") || "–"],
      ["Version", status.version || "–"],
      ["Up for", duration(status.uptime_seconds)],
      ["Start", `no. ${count(status.boot)}`],
      ["Metadata", `${bytes(status.metadata_bytes)}, ${count(status.inline_files)} inline files`],
    ]);
  }

  #tiles(status) {
    const servers = members(status);
    const total = servers.reduce((sum, ds) => sum + ds.total_bytes, 0);
    const free = servers.reduce((sum, ds) => sum + ds.free_bytes, 0);
    const serving = servers.filter((ds) => ds.state === "serving" || ds.state === "draining").length;
    const { read, written, requests } = this.model.now;
    const tiles = [
      ["Read", rate(read), "by all clients"],
      ["Written", rate(written), "by all clients"],
      ["Requests", perSecond(requests), "at the metadata server"],
      ["Clients", count(status.clients), `${count(status.opens)} opens, ${count(status.locks)} locks, ${count(status.layouts)} layouts`],
      ["Used", percent(total - free, total), `${bytes(total - free)} of ${bytes(total)}`],
      ["Data servers", `${serving} of ${servers.length}`, "serve"],
    ];
    const list = $("tiles");
    while (list.children.length < tiles.length) list.append(el("div", { class: "card tile" }, el("dt"), el("dd"), el("dd", { class: "muted small" })));
    tiles.forEach(([name, value, more], at) => {
      const [dt, dd, small] = list.children[at].children;
      setText(dt, name);
      setText(dd, value);
      setText(small, more);
    });
  }
}
