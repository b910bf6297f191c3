// @ts-check
// How numbers, durations, times and ids are written, everywhere alike. Pure: the zone and the present are handed in.

const DASH = "–";
const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** A count with separators; an unknown one is a dash, never NaN. @param {number | null | undefined} value */
export function number(value) {
  return typeof value === "number" && Number.isFinite(value) ? WHOLE.format(value) : DASH;
}

/** Bytes in powers of 1024. @param {number | null | undefined} value */
export function bytes(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return DASH;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

/** "850 ms", "4.1 s", "2 min 10 s", "2 h 4 min", "3 d 2 h": at most two units. @param {number | null | undefined} ms */
export function duration(ms) {
  if (typeof ms !== "number" || !Number.isFinite(ms) || ms < 0) return DASH;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  const parts = [Math.floor(seconds / 86_400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60, seconds % 60];
  const names = ["d", "h", "min", "s"];
  const first = parts.findIndex((part) => part > 0);
  const two = [first, first + 1].filter((index) => index < 4 && (index === first || /** @type {number} */ (parts[index]) > 0));
  return two.map((index) => `${parts[index]} ${names[index]}`).join(" ");
}

/** The milliseconds of a time of an answer; NaN where there is none. @param {string | null | undefined} iso */
export function millis(iso) {
  return iso ? Date.parse(iso) : NaN;
}

/** "6 min 2 s ago", "now", "in 4.0 s". @param {string | null | undefined} iso @param {number} nowMs */
export function ago(iso, nowMs) {
  const passed = nowMs - millis(iso);
  if (!Number.isFinite(passed)) return DASH;
  if (Math.abs(passed) < 1000) return "now";
  return passed > 0 ? `${duration(Math.floor(passed / 1000) * 1000).replace(".0 s", " s")} ago` : `in ${duration(-passed)}`;
}

/** @type {Map<string, Intl.DateTimeFormat>} */
const formats = new Map();

/** @param {string} zone @param {boolean} date */
function formatOf(zone, date) {
  const key = `${zone} ${date}`;
  let format = formats.get(key);
  if (!format) {
    /** @type {Intl.DateTimeFormatOptions} */
    const day = date ? { year: "numeric", month: "2-digit", day: "2-digit" } : {};
    format = new Intl.DateTimeFormat("sv-SE", {
      ...day,
      hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3,
      timeZone: zone === "local" ? undefined : zone,
    });
    formats.set(key, format);
  }
  return format;
}

/** Whether a browser knows a zone of this name. @param {string} name */
export function isZone(name) {
  try {
    return Boolean(new Intl.DateTimeFormat("sv-SE", { timeZone: name }));
  } catch {
    return false;
  }
}

/** The instant at which clocks of a zone show what clocks of UTC show at `shown`; of two, the first of the two that the guess meets.
 * @param {number} shown @param {string} zone @returns {number} milliseconds since 1970 */
export function instantOf(shown, zone) {
  const ahead = (/** @type {number} */ ms) => Date.parse(`${formatOf(zone, true).format(ms).replace(" ", "T").replace(",", ".")}Z`) - ms;
  const guess = shown - ahead(shown);
  return shown - ahead(guess);
}

/** "03:12:08.412": the time of day with milliseconds. @param {string | number | null | undefined} time @param {string} [zone] */
export function clock(time, zone = "UTC") {
  const ms = typeof time === "number" ? time : millis(time);
  return Number.isFinite(ms) ? formatOf(zone, false).format(ms).replace(",", ".") : DASH;
}

/** "2026-11-22 03:12:08.412 UTC". @param {string | number | null | undefined} time @param {string} [zone] */
export function absolute(time, zone = "UTC") {
  const ms = typeof time === "number" ? time : millis(time);
  if (!Number.isFinite(ms)) return DASH;
  return `${formatOf(zone, true).format(ms).replace(",", ".")}${zone === "local" ? "" : ` ${zone}`}`;
}

/** A time of an axis, as short as the length of that allows. @param {number} ms @param {number} length in milliseconds @param {string} zone */
export function tick(ms, length, zone) {
  if (length > 86_400_000) return absolute(ms, zone).slice(5, 16);
  const whole = clock(ms, zone);
  return length < 10_000 ? whole : whole.slice(0, length < 1_200_000 ? 8 : 5);
}

/** An id cut in its middle: "0f3a9c…77e1". @param {string} id @param {number} [most] */
export function middle(id, most = 18) {
  if (id.length <= most) return id;
  const tail = Math.floor((most - 1) / 2.5);
  return `${id.slice(0, most - 1 - tail)}…${id.slice(id.length - tail)}`;
}

/** "1 job", "3 jobs". @param {number} count @param {string} one @param {string} [many] */
export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}
