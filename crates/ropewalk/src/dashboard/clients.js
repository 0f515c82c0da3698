// Clients page by page, and what one of them holds. Owns this section of the page.

import { $, Table, badge, buttons, el, setText } from "./dom.js";
import { ask } from "./api.js";
import { count, counted, duration } from "./format.js";

/** Clients of one page; on a phone each is a card. */
const PAGE_ROWS = matchMedia("(max-width: 760px)").matches ? 8 : 20;
/** Pages that one can go back. */
const BACK_MAX = 1000;
/** Pause between two looks at the page that is shown. */
const LOOK_MS = 5000;

const LEVELS = { active: "green", reclaiming: "yellow", unconfirmed: "unknown", lapsed: "red" };

export class Clients {
  constructor(orders, onError) {
    this.orders = orders;
    this.onError = onError;
    this.before = [];
    this.after = null;
    this.next = null;
    this.isLooking = false;
    this.lookedAt = 0;
    this.table = new Table($("clients-table"), {
      caption: "Clients",
      empty: "No client.",
      key: (row) => row.id,
      columns: [
        { label: "Client", fill: (cell, row) => this.#name(cell, row) },
        { label: "Owner", text: (row) => row.owner },
        { label: "Protocol", text: (row) => row.protocol },
        { label: "Address", text: (row) => (row.addresses ?? []).join(" ") || "–" },
        { label: "State", fill: (cell, row) => badge(cell, LEVELS[row.state] ?? "unknown", row.state) },
        { label: "Seen", number: true, text: (row) => `${duration(row.unseen_seconds)} ago` },
        { label: "Opens", number: true, text: (row) => count(row.opens) },
        { label: "Locks", number: true, text: (row) => count(row.locks) },
        { label: "Delegations", number: true, text: (row) => count(row.delegations) },
        { label: "Layouts", number: true, text: (row) => count(row.layouts) },
      ],
    });
    $("clients-prev").onclick = () => this.#turn(this.before.pop() ?? null);
    $("clients-next").onclick = () => {
      if (this.before.length < BACK_MAX) this.before.push(this.after);
      this.#turn(this.next);
    };
    this.#pager();
  }

  /** Looks again when it is time; `isForced` at once. */
  async look(isForced = false) {
    const now = Date.now();
    if (this.isLooking || (!isForced && now - this.lookedAt < LOOK_MS)) return;
    this.lookedAt = now;
    this.isLooking = true;
    try {
      const asked = this.after;
      const query = `limit=${PAGE_ROWS}${asked === null ? "" : `&after=${encodeURIComponent(asked)}`}`;
      const page = await ask("GET", `/clients?${query}`);
      if (asked !== this.after) return;
      this.next = page.next ?? null;
      this.table.update(page.clients ?? []);
      setText($("clients-error"), "");
    } catch (error) {
      this.onError(error);
      setText($("clients-error"), `Clients: ${error.message}`);
    } finally {
      this.isLooking = false;
      this.#pager();
    }
  }

  async #turn(after) {
    this.after = after;
    this.isLooking = false;
    await this.look(true);
  }

  #pager() {
    $("clients-prev").disabled = this.after === null;
    $("clients-next").disabled = this.next === null;
    setText($("clients-where"), this.after === null && this.next === null ? "" : `Page ${this.before.length + 1}`);
  }

  #name(cell, row) {
    buttons(cell, row.id, () => [
      el("button", { type: "button", class: "link", "aria-label": `Details of client ${row.id}`, text: row.id, on: { click: () => this.#details(row.id) } }),
    ]);
  }

  async #details(id) {
    const dialog = $("details");
    const body = el("div", {}, el("p", { class: "muted", text: "Looking…" }));
    const close = el("button", { type: "button", autofocus: true, id: "details-close", text: "Close", on: { click: () => dialog.close() } });
    const foot = el("div", { class: "actions end" }, close);
    dialog.replaceChildren(el("h2", { id: "details-title", text: `Client ${id}` }), body, foot);
    dialog.showModal();
    try {
      const all = await ask("GET", `/clients/${encodeURIComponent(id)}`);
      body.replaceChildren(...held(all));
      if (this.orders) foot.prepend(el("button", { type: "button", class: "danger", id: "evict", text: "Evict…", on: { click: () => this.#askEvict(all.client) } }));
    } catch (error) {
      this.onError(error);
      body.replaceChildren(el("p", { class: "error", role: "alert", text: error.message }));
    }
  }

  #askEvict(row) {
    $("details").close();
    this.orders.confirm({
      title: `Evict client ${row.id}?`,
      text: [
        `${row.owner} (${(row.addresses ?? []).join(" ")}) was seen ${duration(row.unseen_seconds)} ago. It holds ${counted(row.opens, "open")}, ${counted(row.locks, "lock")}, ${counted(row.delegations, "delegation")} and ${counted(row.layouts, "layout")}.`,
        "All of that goes at once. Programs there lose their locks, and data that they have written but not yet sent may be lost.",
        "The client begins anew by itself.",
      ],
      verb: "Evict",
      order: { method: "POST", path: `/clients/${encodeURIComponent(row.id)}/evict` },
      done: (gone) => {
        this.look(true);
        return gone
          ? `Client ${row.id} is evicted: ${count(gone.opens)} opens, ${count(gone.locks)} locks, ${count(gone.delegations)} delegations and ${count(gone.layouts)} layouts are gone.`
          : `Client ${row.id} is evicted.`;
      },
    });
  }
}

/** What a client holds, as tables. */
function held(all) {
  const { client } = all;
  const line = [
    client.implementation,
    client.protocol,
    client.state,
    `${counted(client.sessions, "session")}`,
    `lease ${duration(client.lease_seconds)}`,
  ];
  const parts = [
    el("p", {}, el("strong", { text: client.owner })),
    el("p", { class: "muted", text: line.filter(Boolean).join(" · ") }),
  ];
  for (const [name, rows] of [
    ["It holds", all.holds],
    ["Stuck on it: recalled from it, or waited for by others", all.stuck],
    ["It waits for", all.waits],
  ]) {
    if (!rows?.length) continue;
    const place = el("div");
    const keyed = rows.map((row, at) => ({ ...row, at }));
    const columns = [
      { label: "What", text: (row) => row.what },
      { label: "File", text: (row) => row.path ?? `inode ${row.inode}` },
      { label: "Mode", text: (row) => (row.deny && row.deny !== "none" ? `${row.mode}, denies ${row.deny}` : row.mode) },
      { label: "Range", text: range },
      { label: "Owner", text: (row) => row.owner ?? "" },
      { label: "For", number: true, text: (row) => (row.since_seconds === null || row.since_seconds === undefined ? "" : duration(row.since_seconds)) },
    ];
    new Table(place, { caption: name, empty: "", key: (row) => row.at, columns }).update(keyed);
    parts.push(el("h3", { text: name }), place);
  }
  if (parts.length === 2) parts.push(el("p", { class: "muted", text: "It holds nothing." }));
  if (all.cut) parts.push(el("p", { class: "muted", text: `Only the first ${count(all.limit)} of each kind are shown.` }));
  return parts;
}

function range(row) {
  if (row.offset === null || row.offset === undefined) return "";
  if (row.length === null || row.length === undefined) return `from ${count(row.offset)} on`;
  return `${count(row.length)} bytes at ${count(row.offset)}`;
}
