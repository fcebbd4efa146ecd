/** Uploads from the browser, directly to a node, with a link that the node has signed. */

import { post, Problem } from "./api";

export interface Upload {
  /** The path below the folder, with slashes between the names. */
  path: string;
  file: File;
}

/** The dropped or chosen files, including those in folders. */
export async function filesOf(items: DataTransferItemList): Promise<Upload[]> {
  const entries = [...items].map((item) => item.webkitGetAsEntry()).filter((entry): entry is FileSystemEntry => entry !== null);
  return (await Promise.all(entries.map((entry) => walk(entry, "")))).flat();
}

async function walk(entry: FileSystemEntry, above: string): Promise<Upload[]> {
  const path = above + entry.name;
  if (entry.isFile) {
    const file = await new Promise<File>((done, failed) => (entry as FileSystemFileEntry).file(done, failed));
    return [{ path, file }];
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const all: Upload[] = [];
  // A reader returns some entries at a time, and none after the last ones.
  for (;;) {
    const chunk = await new Promise<FileSystemEntry[]>((done, failed) => reader.readEntries(done, failed));
    if (chunk.length === 0) return all;
    for (const inner of chunk) all.push(...(await walk(inner, `${path}/`)));
  }
}

export const escaped = (path: string): string => path.split("/").map(encodeURIComponent).join("/");

/** Makes the folders of the files; folders that exist already are left as they are. */
export async function makeFolders(at: string, uploads: Upload[]): Promise<void> {
  const folders = new Set(uploads.flatMap(({ path }) => path.split("/").slice(0, -1).map((_, depth, names) => names.slice(0, depth + 1).join("/"))));
  for (const folder of [...folders].sort((one, other) => one.length - other.length)) {
    await post("/api/v1/folders", { at: `${at}${escaped(folder)}/` }).catch((problem: Problem) => {
      if (problem.status !== 409) throw problem;
    });
  }
}

/** Larger files are sent in parts of this size, so that an interruption costs at most one part. */
const PART_BYTES = 64 * 1024 * 1024;
/** How often a part is tried, and the pause before the second attempt. */
const TRIES = 12;
const WAIT_MS = 500;
/** How long a link is used: a link of a node is valid for 15 minutes, and a new one is requested before that. */
const LINK_USED_MS = 10 * 60_000;

/** Returns a function that gives a valid link for one file, and requests a new one before the last one expires. */
export function linkOf(request: () => Promise<{ url: string }>): () => Promise<string> {
  let link: { url: string; until: number } | undefined;
  return async () => {
    if (link === undefined || Date.now() > link.until) link = { url: (await request()).url, until: Date.now() + LINK_USED_MS };
    return link.url;
  };
}

/** Uploads a file with a link of a node; `onProgress` gets the bytes sent. An interrupted upload of a large file is resumed, even after the page was closed. */
export async function put(link: () => Promise<string>, target: string, file: File, onProgress: (sent: number) => void): Promise<void> {
  if (file.size <= PART_BYTES) return void (await send("PUT", await link(), {}, file, onProgress));
  const storageKey = `upload ${target} ${file.size} ${file.lastModified}`;
  let upload = localStorage.getItem(storageKey);
  let offset = upload === null ? 0 : await offsetOf(await uploadUrl(link, upload)).catch(() => -1);
  if (upload === null || offset < 0) {
    upload = await begin(await link(), file.size);
    localStorage.setItem(storageKey, upload);
    offset = 0;
  }
  let failures = 0;
  while (offset < file.size) {
    const end = Math.min(offset + PART_BYTES, file.size);
    const headers = { "Upload-Offset": String(offset), "Upload-Complete": end === file.size ? "?1" : "?0", "Content-Type": "application/partial-upload" };
    const from = offset;
    try {
      await send("PATCH", await uploadUrl(link, upload), headers, file.slice(offset, end), (sent) => onProgress(from + sent));
      offset = end;
      failures = 0;
    } catch (why) {
      const isOver = why instanceof Problem && why.status >= 400 && why.status !== 409 && why.status < 500;
      failures += 1;
      if (isOver || failures > TRIES) throw why;
      await new Promise((done) => setTimeout(done, WAIT_MS * 2 ** Math.min(failures, 6)));
      offset = await offsetOf(await uploadUrl(link, upload)).catch(() => offset);
    }
    onProgress(offset);
  }
  localStorage.removeItem(storageKey);
}

const uploadUrl = async (link: () => Promise<string>, upload: string): Promise<string> => `${await link()}&upload=${upload}`;

async function begin(url: string, bytes: number): Promise<string> {
  const answer = await send("PUT", url, { "Upload-Complete": "?0", "Upload-Length": String(bytes) });
  const id = /upload=([0-9a-f]+)/.exec(answer.getResponseHeader("Location") ?? "")?.[1];
  if (id === undefined) throw new Problem(0, `${new URL(url).host} does not support uploads in parts: it is not a node of this version.`);
  return id;
}

async function offsetOf(url: string): Promise<number> {
  return Number((await send("HEAD", url, {})).getResponseHeader("Upload-Offset") ?? "0");
}

function send(method: string, url: string, headers: Record<string, string>, body?: Blob, onProgress?: (sent: number) => void): Promise<XMLHttpRequest> {
  return new Promise((done, failed) => {
    const request = new XMLHttpRequest();
    request.open(method, url);
    Object.entries(headers).forEach(([name, value]) => request.setRequestHeader(name, value));
    if (onProgress) request.upload.onprogress = (event) => onProgress(event.loaded);
    request.onload = () => {
      if (request.status < 300) return done(request);
      failed(new Problem(request.status, reasonOf(request.responseText) ?? `The node answered ${request.status} ${request.statusText}.`));
    };
    request.onerror = () =>
      failed(new Problem(0, `${new URL(url).host} cannot be reached from this browser: it is down, its certificate is not trusted, or it does not permit pages of this hub (longhaul serve --allow-origin ${location.origin}).`));
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
