/** The shown tables as CSV (RFC 4180), for spreadsheets. */

/** A cell. A spreadsheet would read a text that begins with one of these characters as a formula, and other users may have chosen the text. */
function cell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csv(rows: string[][]): string {
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

/** The rows of a table, as the reader sees them. */
export function rowsOf(table: HTMLTableElement): string[][] {
  return [...table.rows].map((row) => [...row.cells].map((one) => one.innerText.replace(/\s+/g, " ").trim()));
}

/** Has the browser save a text as a file. */
export function save(file: string, media: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: media }));
  const link = document.createElement("a");
  link.href = url;
  link.download = file;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
