// Data servers, NFSv3 servers of others, copies, and the orders about them. Owns these sections of the page.

import { $, Table, badge, bar, buttons, el, facts, setText, show } from "./dom.js";
import { ago, bytes, count, counted, duration, percent, rate } from "./format.js";
import { foreign, members } from "./model.js";

/** A disk is nearly full below this part of it, as in the alert rules. */
const FREE_PART_MIN = 0.1;

const LEVELS = { serving: "green", draining: "yellow", "catching up": "yellow", away: "red" };

function fill(cell, row) {
  const used = row.total_bytes - row.free_bytes;
  const nearly = row.free_bytes < FREE_PART_MIN * row.total_bytes;
  const level = row.full ? "red" : nearly ? "yellow" : "plain";
  const words = row.full ? ", full" : nearly ? ", nearly full" : "";
  if (row.total_bytes > 0) bar(cell, used / row.total_bytes, `${percent(used, row.total_bytes)} of ${bytes(row.total_bytes)}${words}`, level);
  else bar(cell, 0, "–");
}

function scrubText({ scrub }) {
  if (!scrub) return "–";
  const done = scrub.running ? `now: ${percent(scrub.objects_done, scrub.objects)}` : ago(scrub.scrubbed_at);
  return scrub.damaged_blocks > 0 ? `${done}, ${counted(scrub.damaged_blocks, "damaged block")}` : done;
}

function diskText(ds) {
  const sync = ds.sync_us > 0 ? `syncs ${(ds.sync_us / 1000).toFixed(1)} ms` : "idle";
  const errors = ds.errors > 0 ? `, ${counted(ds.errors, "error")}` : "";
  return `${sync}${errors}${ds.slow ? ", slow" : ""}`;
}

export class Servers {
  /** `orders`: confirm(order) of the dialogs, or null for who may not. */
  constructor(model, orders) {
    this.model = model;
    this.orders = orders;
    const speed = (at) => (row) => rate(this.model.rates.get(at.id(row))?.[at.way]);
    const own = (way) => speed({ id: (row) => `d${row.id}`, way });
    const others = (way) => speed({ id: (row) => row.id, way });
    const columns = [
      { label: "Server", text: (row) => `DS ${row.id}` },
      { label: "State", fill: (cell, row) => badge(cell, LEVELS[row.state] ?? "yellow", row.state) },
      { label: "Address", text: (row) => (row.addresses ?? []).join(" ") || "–" },
      { label: "Fill level", fill },
      { label: "Objects", number: true, text: (row) => count(row.objects) },
      { label: "Places", number: true, text: (row) => count(row.places) },
      { label: "Read", number: true, text: own(0) },
      { label: "Written", number: true, text: own(1) },
      { label: "Disk", text: diskText },
      { label: "Scrubbed", text: scrubText },
    ];
    if (orders) columns.push({ label: "", hiddenLabel: "Actions", fill: (cell, row) => this.#actions(cell, row) });
    this.servers = new Table($("data-servers"), {
      caption: "Data servers",
      empty: "No data server has joined. `ropewalk token create` makes a token for one.",
      key: (row) => row.id,
      columns,
    });
    this.foreign = new Table($("foreign-servers"), {
      caption: "NFSv3 servers of others",
      empty: "None.",
      key: (row) => row.id,
      columns: [
        { label: "Server", text: (row) => row.id },
        { label: "Export", text: (row) => row.target },
        { label: "State", text: (row) => (row.files_left === null || row.files_left === undefined ? row.state : `${row.state}, ${counted(row.files_left, "file")} left`) },
        { label: "Answers", fill: answers },
        { label: "Fill level", fill },
        { label: "Groups", number: true, text: (row) => count(row.groups) },
        { label: "Read", number: true, text: others(0) },
        { label: "Written", number: true, text: others(1) },
        { label: "Last error", text: (row) => row.last_error ?? "" },
      ],
    });
    this.fillings = new Table($("fillings"), {
      caption: "Members of places that are being filled",
      empty: "Nothing is being filled.",
      key: (row) => `${row.group}/${row.place}/${row.ds}`,
      columns: [
        { label: "Group/place", text: (row) => `${row.group}/${row.place}` },
        { label: "Onto", text: (row) => `DS ${row.ds}` },
        { label: "Progress", fill: (cell, row) => bar(cell, row.parts ? row.parts_done / row.parts : 0, `${count(row.parts_done)} of ${counted(row.parts, "part")}`) },
        { label: "Sent", number: true, text: (row) => bytes(row.bytes_sent) },
      ],
    });
    this.#headActions();
  }

  draw() {
    const { status } = this.model;
    if (!status) return;
    this.servers.update(members(status));
    const others = foreign(status);
    show($("foreign"), others.length > 0);
    this.foreign.update(others);
    this.#copies(status);
  }

  #copies(status) {
    const places = (status.groups ?? []).flatMap((group) => group.places ?? []);
    const wanted = places.filter((place) => place.copies > 1);
    const lacking = places.filter((place) => 1 + place.sync.length < place.copies);
    const last = wanted.filter((place) => place.sync.length === 0);
    const unserved = places.filter((place) => !place.served);
    const left = status.full_redundancy_seconds;
    const line =
      wanted.length === 0
        ? "Files have one copy each."
        : lacking.length === 0
          ? `All ${counted(wanted.length, "place")} have their copies.`
          : `${lacking.length} of ${counted(wanted.length, "place")} lack copies. Full redundancy in ${left === null || left === undefined ? "an unknown time" : duration(left)}.`;
    setText($("copies-line"), line);
    if (!status.rebalancing) this.countsPlaces = null;
    const draining = members(status).filter((ds) => ds.state === "draining");
    const drain = draining.map((ds) => `DS ${ds.id}: ${counted(ds.places, "place")} left`).join("; ");
    facts($("copies-facts"), [
      ["Copies of new files", count(status.copies)],
      ["On the last copy", count(last.length), last.length ? "red" : "plain"],
      ["Not served", count(unserved.length), unserved.length ? "red" : "plain"],
      ["Rebalance", status.rebalancing ? `runs, about ${this.#toMove(status.to_level)} to move` : "off"],
      ["Drain", drain || "none"],
      ["Limit of fillings", status.fill_bytes_per_s ? rate(status.fill_bytes_per_s) : "none"],
      ["Removals waiting", count(status.removals_waiting)],
    ]);
    this.fillings.update(status.fillings ?? []);
    if (this.rebalance) setText(this.rebalance, status.rebalancing ? "Stop rebalance…" : "Rebalance…");
  }

  /** In the unit that says most when a rebalance begins, as `ropewalk ds rebalance` tells it. */
  #toMove(left) {
    this.countsPlaces ??= left.one_disk;
    return this.countsPlaces ? counted(left.places, "place") : bytes(left.bytes);
  }

  #headActions() {
    if (!this.orders) {
      $("servers-actions").replaceChildren();
      $("copies-actions").replaceChildren();
      return;
    }
    this.rebalance = el("button", { type: "button", id: "rebalance", on: { click: () => this.#askRebalance() }, text: "Rebalance…" });
    const scrub = el("button", { type: "button", id: "scrub", on: { click: () => this.#askScrub() }, text: "Scrub now…" });
    $("servers-actions").replaceChildren(scrub);
    $("copies-actions").replaceChildren(this.rebalance);
  }

  #actions(cell, row) {
    const isDraining = row.state === "draining";
    buttons(cell, `${row.id} ${isDraining}`, () => {
      const name = isDraining ? "Undrain" : "Drain";
      const click = () => (isDraining ? this.#askUndrain(row.id) : this.#askDrain(row.id));
      return [el("button", { type: "button", class: "small", "aria-label": `${name} data server ${row.id}`, on: { click }, text: `${name}…` })];
    });
  }

  #askDrain(id) {
    const all = members(this.model.status);
    const row = all.find((ds) => ds.id === id);
    if (!row) return;
    const others = all.filter((ds) => ds.id !== id && ds.state === "serving");
    const choice = el("select", { id: "substitute" }, el("option", { value: "", text: "any with room" }),
      ...others.map((ds) => el("option", { value: String(ds.id), text: `data server ${ds.id} (${bytes(ds.free_bytes)} free)` })));
    const body = (dryRun) => ({ substitute: choice.value === "" ? null : Number(choice.value), dry_run: dryRun });
    this.orders.confirm({
      title: `Drain data server ${id}?`,
      text: [
        `It gives its ${counted(row.places, "place")} with ${counted(row.objects, "object")} to other data servers. ${bytes(row.total_bytes - row.free_bytes)} are used on its disk.`,
        "It serves its files meanwhile, and gets no new ones. When it is empty, it can be removed from the cluster.",
        "Undrain ends this at any time; the data server keeps what it has then.",
      ],
      extra: [el("label", { for: "substitute", text: "Places go to" }), choice],
      verb: "Drain",
      check: { path: `/data-servers/${id}/drain`, body: () => body(true), again: choice },
      order: { method: "POST", path: `/data-servers/${id}/drain`, body: () => body(false) },
      done: () => `Data server ${id} is draining.`,
    });
  }

  #askUndrain(id) {
    this.orders.confirm({
      title: `Undrain data server ${id}?`,
      text: ["It keeps the places that it still has, and takes new files again. What has moved stays where it is now."],
      verb: "Undrain",
      order: { method: "POST", path: `/data-servers/${id}/undrain` },
      done: () => `Data server ${id} takes new files.`,
    });
  }

  #askScrub() {
    this.orders.confirm({
      title: "Scrub all disks now?",
      text: [
        "Each data server reads all that lies on its disk and compares it with its sums. Damage is mended from other copies.",
        "Clients are served meanwhile; their requests share the disks with it. It can take hours.",
      ],
      verb: "Scrub",
      order: { method: "POST", path: "/scrub" },
      done: () => "The data servers compare their disks.",
    });
  }

  #askRebalance() {
    const isOn = this.model.status?.rebalancing === true;
    this.orders.confirm({
      title: isOn ? "Stop the rebalance?" : "Rebalance the data servers?",
      text: isOn
        ? ["No further place is moved. Those that are under way are finished."]
        : [
            "Places are moved until the data servers are equally full. That takes network and disks, at most as the limit of fillings says.",
            "Clients are served meanwhile. It can be stopped at any time.",
          ],
      verb: isOn ? "Stop" : "Rebalance",
      order: { method: "POST", path: "/rebalance", body: () => ({ wanted: !isOn }) },
      done: () => (isOn ? "No further place is moved." : "Places are moved until the data servers are level."),
    });
  }
}

function answers(cell, row) {
  const since = row.since_seconds;
  if (row.up) badge(cell, "green", `yes, for ${duration(since ?? 0)}`);
  else if (since === null || since === undefined) badge(cell, "unknown", "not seen yet");
  else badge(cell, "red", `no, for ${duration(since)}`);
}
