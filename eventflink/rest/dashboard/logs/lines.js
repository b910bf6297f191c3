// @ts-check
// The lines of a log: their level, which of them are shown, and the lines that an address names. Pure.

/** @typedef {"DEBUG" | "INFO" | "WARNING" | "ERROR"} Level */
/** @typedef {{number: number, text: string, level: Level | null}} Line */

/** @type {Level[]} */
export const LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR"];
const LEVEL = /\b(TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b/;
/** A level stands at the beginning of a line, after a time and a thread, and not in the middle of its message. */
const WITHIN = 80;

/** The lines of a text whose first one has a number. A line without a level, such as one of a trace, has that of the line before.
 * @param {string} text @param {number} first @returns {Line[]} */
export function linesOf(text, first) {
  const parts = text.split("\n");
  if (parts.at(-1) === "") parts.pop();
  /** @type {Level | null} */
  let level = null;
  return parts.map((part, index) => {
    level = levelOf(part) ?? level;
    return { number: first + index, text: part.replace(/\r$/, ""), level };
  });
}

/** @param {string} line @returns {Level | null} */
function levelOf(line) {
  const found = LEVEL.exec(line.slice(0, WITHIN))?.[1];
  if (!found) return null;
  if (found === "TRACE") return "DEBUG";
  if (found.startsWith("WARN")) return "WARNING";
  return found === "CRITICAL" || found === "FATAL" ? "ERROR" : /** @type {Level} */ (found);
}

/** The lines of at least a level that contain a text, whatever its case.
 * @param {Line[]} lines @param {Level} least @param {string} wanted */
export function chosen(lines, least, wanted) {
  const [from, text] = [LEVELS.indexOf(least), wanted.toLowerCase()];
  return lines.filter((line) => (line.level === null ? from <= 1 : LEVELS.indexOf(line.level) >= from) && line.text.toLowerCase().includes(text));
}

/** "#L118" or "#L118-L130": the lines that an address names; null: it names none. @param {string} hash */
export function rangeOf(hash) {
  const found = /^#L(\d{1,9})(?:-L(\d{1,9}))?$/.exec(hash);
  if (!found) return null;
  const [from, until] = [Number(found[1]), Number(found[2] ?? found[1])];
  return { from: Math.min(from, until), until: Math.max(from, until) };
}

/** @param {{from: number, until: number}} range */
export function hashOf({ from, until }) {
  return from === until ? `#L${from}` : `#L${from}-L${until}`;
}
