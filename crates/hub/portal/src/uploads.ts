/** Files from the browser to a node: straight there, by a link that the node has signed. */

import { post, Problem } from "./api";

export interface Wanted {
  /** The path below the folder, names with slashes between them. */
  path: string;
  file: File;
}

/** The files of a drop or a choice, with those in folders. */
export async function filesOf(items: DataTransferItemList): Promise<Wanted[]> {
  const entries = [...items].map((item) => item.webkitGetAsEntry()).filter((entry): entry is FileSystemEntry => entry !== null);
  return (await Promise.all(entries.map((entry) => walk(entry, "")))).flat();
}

async function walk(entry: FileSystemEntry, above: string): Promise<Wanted[]> {
  const path = above + entry.name;
  if (entry.isFile) {
    const file = await new Promise<File>((done, failed) => (entry as FileSystemFileEntry).file(done, failed));
    return [{ path, file }];
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const all: Wanted[] = [];
  // A reader tells of some at a time, and of none once it has told of all.
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((done, failed) => reader.readEntries(done, failed));
    if (some.length === 0) return all;
    for (const inner of some) all.push(...(await walk(inner, `${path}/`)));
  }
}

export const escaped = (path: string): string => path.split("/").map(encodeURIComponent).join("/");

/** Makes the folders that files lie in; those that are there already are no trouble. */
export async function makeFolders(at: string, wanted: Wanted[]): Promise<void> {
  const folders = new Set(wanted.flatMap(({ path }) => path.split("/").slice(0, -1).map((_, depth, names) => names.slice(0, depth + 1).join("/"))));
  for (const folder of [...folders].sort((one, other) => one.length - other.length)) {
    await post("/api/v1/folders", { at: `${at}${escaped(folder)}/` }).catch((problem: Problem) => {
      if (problem.status !== 409) throw problem;
    });
  }
}

/** Files above this are sent in parts of this size, so that a break costs one part at most. */
const PART_BYTES = 64 * 1024 * 1024;
/** How often a part is tried, and how long is waited before the first time after a break. */
const TRIES = 12;
const WAIT_MS = 500;
/** A link of a node counts for 15 minutes; before that a new one is asked for. */
const LINK_LASTS_MS = 10 * 60_000;

/** Gives links for one file, a new one when the last one is about to end. */
export function linkOf(ask: () => Promise<{ url: string }>): () => Promise<string> {
  let link: { url: string; until: number } | undefined;
  return async () => {
    if (link === undefined || Date.now() > link.until) link = { url: (await ask()).url, until: Date.now() + LINK_LASTS_MS };
    return link.url;
  };
}

/** Puts a file to a link of a node; `told` hears how much is there. A large file goes on where it was, also in another page on another day. */
export async function put(link: () => Promise<string>, target: string, file: File, told: (sent: number) => void): Promise<void> {
  if (file.size <= PART_BYTES) return void (await send("PUT", await link(), {}, file, told));
  const known = `upload ${target} ${file.size} ${file.lastModified}`;
  let upload = localStorage.getItem(known);
  let offset = upload === null ? 0 : await offsetOf(await at(link, upload)).catch(() => -1);
  if (upload === null || offset < 0) {
    upload = await begin(await link(), file.size);
    localStorage.setItem(known, upload);
    offset = 0;
  }
  let failures = 0;
  while (offset < file.size) {
    const end = Math.min(offset + PART_BYTES, file.size);
    const headers = { "Upload-Offset": String(offset), "Upload-Complete": end === file.size ? "?1" : "?0", "Content-Type": "application/partial-upload" };
    const from = offset;
    try {
      await send("PATCH", await at(link, upload), headers, file.slice(offset, end), (sent) => told(from + sent));
      offset = end;
      failures = 0;
    } catch (why) {
      const isOver = why instanceof Problem && why.status >= 400 && why.status !== 409 && why.status < 500;
      failures += 1;
      if (isOver || failures > TRIES) throw why;
      await new Promise((done) => setTimeout(done, WAIT_MS * 2 ** Math.min(failures, 6)));
      offset = await offsetOf(await at(link, upload)).catch(() => offset);
    }
    told(offset);
  }
  localStorage.removeItem(known);
}

const at = async (link: () => Promise<string>, upload: string): Promise<string> => `${await link()}&upload=${upload}`;

async function begin(url: string, bytes: number): Promise<string> {
  const answer = await send("PUT", url, { "Upload-Complete": "?0", "Upload-Length": String(bytes) });
  const id = /upload=([0-9a-f]+)/.exec(answer.getResponseHeader("Location") ?? "")?.[1];
  if (id === undefined) throw new Problem(0, `${new URL(url).host} takes no uploads in parts: it is no node of this version.`);
  return id;
}

async function offsetOf(url: string): Promise<number> {
  return Number((await send("HEAD", url, {})).getResponseHeader("Upload-Offset") ?? "0");
}

function send(method: string, url: string, headers: Record<string, string>, body?: Blob, told?: (sent: number) => void): Promise<XMLHttpRequest> {
  return new Promise((done, failed) => {
    const request = new XMLHttpRequest();
    request.open(method, url);
    Object.entries(headers).forEach(([name, value]) => request.setRequestHeader(name, value));
    if (told) request.upload.onprogress = (event) => told(event.loaded);
    request.onload = () => {
      if (request.status < 300) return done(request);
      failed(new Problem(request.status, reasonOf(request.responseText) ?? `The node answered ${request.status} ${request.statusText}.`));
    };
    request.onerror = () =>
      failed(new Problem(0, `${new URL(url).host} cannot be reached from this browser: it is down, its certificate is not trusted, or it answers no pages of this hub (longhaul serve --allow-origin ${location.origin}).`));
    request.send(body ?? null);
  });
}

function reasonOf(text: string): string | undefined {
  try {
    const { reason, detail } = JSON.parse(text) as { reason?: string; detail?: string };
    return reason ?? detail;
  } catch {
    return text.trim() === "" ? undefined : text.trim().slice(0, 300);
  }
}
