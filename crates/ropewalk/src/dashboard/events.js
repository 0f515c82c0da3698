// The last events of the metadata server. Owns their table, which has a limit.

import { $, Table, badge } from "./dom.js";
import { ask } from "./api.js";
import { moment } from "./format.js";

/** Events that are kept in the page: all that the server keeps. */
const EVENTS_MAX = 512;
/** Of these are drawn. */
const DRAWN_MAX = 100;
/** Events of one answer, and the answers that this takes at most. */
const PAGE_ROWS = 100;
const PAGES_MAX = 8;

const LEVELS = { info: ["unknown", "info"], warn: ["yellow", "warning"], error: ["red", "error"] };
const RANK = { info: 0, warn: 1, error: 2 };

export class Events {
  constructor() {
    this.rows = [];
    this.table = new Table($("events-table"), {
      caption: "Events, the newest first",
      empty: "No event.",
      key: (row) => row.id,
      columns: [
        { label: "Time", text: (row) => moment(row.at_ms) },
        { label: "Level", fill: (cell, row) => badge(cell, ...(LEVELS[row.level] ?? ["unknown", row.level])) },
        { label: "Event", text: (row) => row.text },
      ],
    });
    $("events-level").onchange = () => this.draw();
  }

  /** Reads all that the server keeps: it may be another process than before, which knows nothing of the earlier events. */
  async load() {
    let [after, rows] = [0, []];
    for (let page = 0; page < PAGES_MAX; page += 1) {
      const answer = await ask("GET", `/events?after=${after}&limit=${PAGE_ROWS}`);
      rows = rows.concat(answer.events ?? []);
      if (answer.next === null || answer.next === undefined) break;
      after = answer.next;
    }
    this.rows = [];
    rows.forEach((row) => this.#keep(row));
    this.draw();
  }

  /** The id of the newest, after which the stream goes on; null when there is none. */
  newest() {
    return this.rows.reduce((newest, row) => (newest === null || row.id > newest ? row.id : newest), null);
  }

  /** Takes one of the stream in. */
  take(row) {
    this.#keep(row);
    this.draw();
  }

  #keep(row) {
    if (this.rows.some((known) => known.id === row.id)) return;
    this.rows.push(row);
    if (this.rows.length > EVENTS_MAX) this.rows.shift();
  }

  draw() {
    const least = RANK[$("events-level").value] ?? 0;
    const wanted = this.rows.filter((row) => (RANK[row.level] ?? 0) >= least);
    wanted.sort((a, b) => b.id - a.id);
    this.table.update(wanted.slice(0, DRAWN_MAX));
  }
}
