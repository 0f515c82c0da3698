// Numbers and times as people read them. Pure: knows nothing of the page.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const COUNT_UNITS = ["", "k", "M", "G", "T"];

function scaled(value, step, units) {
  let at = 0;
  while (value >= step && at < units.length - 1) {
    value /= step;
    at += 1;
  }
  const digits = at === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return [value.toFixed(digits), units[at]];
}

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** Bytes with a binary unit; a dash for what is not known. */
export function bytes(value) {
  if (!isNumber(value)) return "–";
  return scaled(value, 1024, UNITS).join(" ");
}

/** Bytes per second. */
export function rate(value) {
  return isNumber(value) ? `${bytes(value)}/s` : "–";
}

/** Digits of a large count in groups. */
export function count(value) {
  return isNumber(value) ? Math.round(value).toLocaleString("en-US") : "–";
}

/** So many per second, short. */
export function perSecond(value) {
  if (!isNumber(value)) return "–";
  if (value > 0 && value < 10) return `${value.toFixed(1)}/s`;
  return value < 1e5 ? `${count(value)}/s` : `${scaled(value, 1000, COUNT_UNITS).join("")}/s`;
}

/** Microseconds as the unit that fits. */
export function micros(us) {
  if (!isNumber(us)) return "–";
  if (us < 1000) return `${Math.round(us)} µs`;
  if (us < 1e6) return `${(us / 1e3).toFixed(us < 1e4 ? 1 : 0)} ms`;
  return `${(us / 1e6).toFixed(1)} s`;
}

/** Seconds as the two largest units. */
export function duration(seconds) {
  if (!isNumber(seconds)) return "–";
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return s % 60 && s < 600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} days`;
}

/** How long ago a moment in seconds since 1970 was; 0 is never. */
export function ago(atSeconds, nowMs = Date.now()) {
  if (!atSeconds) return "never";
  const s = nowMs / 1000 - atSeconds;
  return s < 60 ? "just now" : `${duration(s)} ago`;
}

/** A part of a whole in per cent. */
export function percent(part, whole) {
  if (!isNumber(part) || !(whole > 0)) return "–";
  const value = (part / whole) * 100;
  return `${value < 10 && value > 0 ? value.toFixed(1) : Math.round(value)} %`;
}

/** Hours, minutes and seconds of the reader's clock. */
export function clock(ms) {
  return new Date(ms).toLocaleTimeString("en-GB");
}

/** The day with it, if that is not today. */
export function moment(ms) {
  const at = new Date(ms);
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? clock(ms) : `${at.toLocaleDateString("en-CA")} ${clock(ms)}`;
}

/** `1 place`, `2 places`. */
export function counted(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}
