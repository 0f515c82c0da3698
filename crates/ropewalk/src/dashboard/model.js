// What is computed of samples: rates, quantiles and the last ten minutes. Owns all buffers, each with a limit, so that a
// page may stay open for weeks. Pure: knows nothing of the page or the network.

/** How far back charts go. */
export const CHART_MS = 10 * 60 * 1000;
/** Points of a chart: one a second, and some to spare. */
const POINTS_MAX = 660;
/** Rates are taken over so long: heartbeats of data servers bring their counts not quite each second. */
const RATE_MS = 3000;
/** Readings of counters that are kept. */
const READINGS_MAX = 16;
/** Latencies are those of so long. */
const LATENCY_MS = 60_000;
/** Pause between two histograms that are kept. */
const LATENCY_STEP_MS = 5000;
/** Longest pause between two samples that a line bridges. */
const GAP_MS = 5000;
/** Upper bounds of the buckets in microseconds; the last bucket has none. As in crates/server/src/latency.rs. */
const BOUNDS_US = [50, 150, 500, 1500, 5000, 15000, 50000, 150000, 500000, 1500000, 5000000, 10000000];

/** The last points of some values. */
export class History {
  constructor(keys, size = POINTS_MAX) {
    this.keys = keys;
    this.size = size;
    this.times = new Float64Array(size);
    this.values = Object.fromEntries(keys.map((key) => [key, new Float64Array(size)]));
    this.begin = 0;
    this.length = 0;
  }

  push(at, values) {
    const where = (this.begin + this.length) % this.size;
    this.times[where] = at;
    for (const key of this.keys) this.values[key][where] = values[key] ?? NaN;
    if (this.length < this.size) this.length += 1;
    else this.begin = (this.begin + 1) % this.size;
  }

  /** Calls with time and values index of each point from `since` on. */
  each(since, f) {
    for (let i = 0; i < this.length; i += 1) {
      const where = (this.begin + i) % this.size;
      if (this.times[where] >= since) f(this.times[where], where);
    }
  }

  last() {
    return this.length === 0 ? null : (this.begin + this.length - 1) % this.size;
  }
}

const sum = (rows, value) => rows.reduce((total, row) => total + (value(row) || 0), 0);
const requests = (rows) => sum(rows, (row) => sum(row.buckets ?? [], (n) => n));

/** Data servers that belong to the cluster. */
export const members = (status) => (status.data_servers ?? []).filter((ds) => ds.state !== "expelled");
/** NFSv3 servers of others that are used. */
export const foreign = (status) => (status.foreign_servers ?? []).filter((server) => server.state !== "removed");

/** Bytes read and written by clients with layouts. */
const clientBytes = (row) => [row.client_read_bytes || 0, row.client_written_bytes || 0];
/** Bytes that the metadata server moved for clients without layouts. */
const proxyBytes = (row) => [row.proxy_read_bytes || 0, row.proxy_written_bytes || 0];
const added = (a, b) => [a[0] + b[0], a[1] + b[1]];

/** The time below which so many per cent are, guessed evenly within its bucket. */
export function quantile(buckets, part) {
  const wanted = sum(buckets, (n) => n) * part;
  if (!(wanted > 0)) return NaN;
  let [below, low] = [0, 0];
  for (let i = 0; i < BOUNDS_US.length; i += 1) {
    const here = buckets[i] || 0;
    if (here > 0 && below + here >= wanted) return low + ((BOUNDS_US[i] - low) * (wanted - below)) / here;
    below += here;
    low = BOUNDS_US[i];
  }
  return low;
}

const latencyKey = (row) => `${row.operation} ${row.transport}`;

export class Model {
  constructor() {
    this.history = new History(["read", "written", "requests"]);
    this.readings = [];
    this.histograms = [];
    this.process = null;
    this.status = null;
    this.health = null;
    this.now = { read: NaN, written: NaN, requests: NaN };
    this.rates = new Map();
  }

  /** Takes a sample in; `at_ms` is the server's clock. */
  take({ at_ms: at, status, health }) {
    const process = `${status.pid} ${status.boot}`;
    const last = this.readings.at(-1);
    if (this.process !== process || (last && at <= last.at)) {
      // Another process counts from its beginning: nothing can be compared with it.
      this.readings = [];
      this.histograms = [];
      this.rates = new Map();
      this.now = { read: NaN, written: NaN, requests: NaN };
      if (this.process !== null) this.history.push(at, {});
    } else if (last && at - last.at > GAP_MS) {
      this.history.push(last.at + 1, {});
    }
    this.process = process;
    this.status = status;
    this.health = health;
    this.#rates(at, status);
    this.#latency(at, status);
  }

  #rates(at, status) {
    // What the metadata server moves is in the counts of its data servers, too: it counts once in the sum.
    const servers = new Map([["mds", { all: proxyBytes(status), once: proxyBytes(status) }]]);
    for (const ds of members(status)) {
      servers.set(`d${ds.id}`, { all: added(clientBytes(ds), proxyBytes(ds)), once: clientBytes(ds) });
    }
    for (const server of foreign(status)) {
      servers.set(server.id, { all: clientBytes(server), once: clientBytes(server) });
    }
    this.readings.push({ at, servers, requests: requests(status.latency ?? []) });
    if (this.readings.length > READINGS_MAX) this.readings.shift();
    const old = this.readings.findLast((one) => at - one.at >= RATE_MS) ?? this.readings[0];
    const seconds = (at - old.at) / 1000;
    if (seconds <= 0) return;
    // A count that went back is one of a server that was started again.
    const rate = (before, after) => Math.max(0, after - before) / seconds;
    const pair = (before, after) => [rate(before[0], after[0]), rate(before[1], after[1])];
    this.rates = new Map();
    let both = [0, 0];
    for (const [id, now] of servers) {
      const before = old.servers.get(id) ?? now;
      this.rates.set(id, pair(before.all, now.all));
      both = added(both, pair(before.once, now.once));
    }
    const asked = rate(old.requests, this.readings.at(-1).requests);
    this.now = { read: both[0], written: both[1], requests: asked };
    this.history.push(at, this.now);
  }

  #latency(at, status) {
    const last = this.histograms.at(-1);
    if (!last || at - last.at >= LATENCY_STEP_MS) {
      const rows = new Map((status.latency ?? []).map((row) => [latencyKey(row), row.buckets]));
      this.histograms.push({ at, rows });
    }
    while (this.histograms.length > LATENCY_MS / LATENCY_STEP_MS + 1) this.histograms.shift();
  }

  /** Operations of the last minute, the most frequent first. */
  latencies() {
    const first = this.histograms[0];
    const last = this.readings.at(-1);
    if (!first || !last || !this.status) return { seconds: 0, rows: [] };
    const seconds = (last.at - first.at) / 1000;
    const rows = (this.status.latency ?? []).map((row) => {
      const old = first.rows.get(latencyKey(row)) ?? [];
      const buckets = row.buckets.map((n, i) => Math.max(0, n - (old[i] || 0)));
      const count = sum(buckets, (n) => n);
      return {
        key: latencyKey(row),
        operation: row.operation,
        transport: row.transport,
        perSecond: seconds > 0 ? count / seconds : 0,
        p50: quantile(buckets, 0.5),
        p95: quantile(buckets, 0.95),
        p99: quantile(buckets, 0.99),
        total: sum(row.buckets, (n) => n),
      };
    });
    rows.sort((a, b) => b.perSecond - a.perSecond || b.total - a.total);
    return { seconds, rows };
  }
}
