/** Names and numbers as text. */

/** Control characters, and characters that change the direction of text: a name with them could look like another name. */
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** A name with invisible characters written as code points. It must be shown as a text node, never as markup. */
export function name(text: string): string {
  return text.replace(INVISIBLE, (character) => `[U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}]`);
}

const STEPS = ["", "k", "M", "G", "T", "P", "E"];

function scaled(value: number, unit: string): string {
  let step = 0;
  while (value >= 1000 && step < STEPS.length - 1) {
    value /= 1000;
    step += 1;
  }
  const digits = step === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${STEPS[step]}${unit}`;
}

export const bytes = (count: number): string => scaled(count, "B");
export const rate = (bitS: number): string => scaled(bitS, "bit/s");
export const count = (number: number): string => number.toLocaleString("en");

/** A duration, in its two largest units. */
export function duration(seconds: number): string {
  if (seconds < 1) return `${(seconds * 1000).toPrecision(3)} ms`;
  const units: [string, number][] = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const at = units.findIndex(([, length]) => seconds >= length);
  const [large, small] = [units[at] ?? units[3]!, units[at + 1]];
  const whole = Math.floor(seconds / large[1]);
  const rest = small === undefined ? 0 : Math.floor((seconds % large[1]) / small[1]);
  return rest > 0 ? `${whole} ${large[0]} ${rest} ${small![0]}` : `${whole} ${large[0]}`;
}

/** A time of the API, in the reader's time zone. */
export function time(text: string | undefined): string {
  if (text === undefined) return "";
  return new Date(text).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
}

/** A part of a whole, in percent; 0 if the whole is 0. */
export function percent(part: number, whole: number): number {
  return whole > 0 ? Math.min(100, Math.floor((100 * part) / whole)) : 0;
}

/** A fraction as percent, with enough digits that 0.0046 % is not shown as 0. */
export function percentOf(part: number): string {
  const value = part * 100;
  if (value === 0) return "0 %";
  return `${value >= 10 ? value.toFixed(0) : value >= 0.1 ? value.toFixed(2) : value.toPrecision(2)} %`;
}
