/** Requests to the hub's API. Every page gets its data through this file; the texts of refusals are the hub's own. */

/** A refusal of the hub (RFC 9457), or the error that the hub does not answer (status 0). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    reason: string,
  ) {
    super(reason);
  }
}

/** Is called when the hub answers that the session has ended. */
let signedOut: () => void = () => {};

export function onSignedOut(act: () => void): void {
  signedOut = act;
}

async function request<T>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
  const init: RequestInit = { method, headers: { Accept: "application/json", ...headers }, credentials: "same-origin" };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { ...init.headers, "Content-Type": "application/json" };
  }
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new Problem(0, "The hub does not answer. It may be restarting, or this computer is offline; the page retries by itself.");
  }
  const text = await response.text();
  const value: unknown = text === "" ? {} : parseJson(text);
  if (response.ok) return value as T;
  if (response.status === 401) signedOut();
  throw new Problem(response.status, reasonOf(value) ?? `The hub answered ${response.status} ${response.statusText}.`);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function reasonOf(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { detail, reason } = value as { detail?: unknown; reason?: unknown };
  const text = [reason, detail].find((one) => typeof one === "string" && one !== "");
  return text as string | undefined;
}

export const get = <T>(path: string): Promise<T> => request<T>("GET", path);
export const post = <T>(path: string, body: unknown): Promise<T> => request<T>("POST", path, body);
export const put = <T>(path: string, body: unknown): Promise<T> => request<T>("PUT", path, body);
export const patch = <T>(path: string, body: unknown): Promise<T> => request<T>("PATCH", path, body);
export const remove = <T>(path: string): Promise<T> => request<T>("DELETE", path);

/** The signed-in member. */
export interface WhoAmI {
  owner: string;
  role: string;
  community: string;
}

/** Begins a session with an access key or a token. */
export function signIn(credential: string): Promise<WhoAmI> {
  return request<WhoAmI>("POST", "/api/v1/session", undefined, { Authorization: `Bearer ${credential}` });
}

export interface Job {
  id: string;
  state: string;
  owner: string;
  community: string;
  activity: string;
  priority: number;
  /** Its limit, bit/s; undefined if it has none. */
  limit_bit_s?: number;
  submitted: string;
  started?: string;
  ended?: string;
  deadline?: string;
  files: number;
  queued: number;
  running: number;
  done: number;
  failed: number;
  cancelled: number;
  bytes: number;
  done_bytes: number;
  paused?: boolean;
  limited_by?: { part: string; evidence: string; remedy?: string };
}

export interface JobTransfer {
  id: string;
  carrier: string;
  files: number;
  bytes: number;
  arrived_bytes?: number;
  rate_bit_s: number;
  created: string;
}

export interface Estimate {
  bytes: number;
  unsized_files: number;
  rate_bit_s?: number;
  seconds?: number;
  bound_by: string;
}

export interface Jobs {
  jobs: Job[];
  next?: number;
}

export interface JobFile {
  number: number;
  state: string;
  source: string;
  target: string;
  bytes: number;
  checksum?: string;
  attempts: number;
  fault?: string;
  error?: string;
  transfer?: string;
}

export interface JobFiles {
  files: JobFile[];
  next?: number;
}

export interface Why {
  source: string;
  target: string;
  position: number;
  constraint: { kind: string; name: string; text: string };
  held_by: string[];
  expected_start?: string;
  expected_end?: string;
}

export interface QueueLine {
  number: number;
  source: string;
  target: string;
  community: string;
  activity: string;
  owner: string;
  queued: number;
  queued_bytes: number;
  running: number;
  allocated_bit_s?: number;
  used_bit_s: number;
  constraint: { kind: string; name: string; text: string };
}

export interface Share {
  name: string;
  usable_bit_s: number;
  allocated_bit_s: number;
  used_bit_s: number;
}

export interface Endpoint {
  site?: string;
  urls?: string[];
  stopped?: { reason: string; drain?: boolean; refuse?: boolean };
}

export interface Collaboration {
  site: Record<string, { title?: string; location?: [number, number]; stopped?: { reason: string } }>;
  endpoint: Record<string, Endpoint>;
  link: Record<string, { capacity_bit_s: number; mark?: number; stopped?: { reason: string } }>;
  community?: Record<string, { share?: number; cap_bit_s?: number; activity?: Record<string, { share?: number }>; stopped?: { reason: string } }>;
  stopped?: { reason: string; drain?: boolean };
}

export interface FolderEntry {
  name: string;
  href: string;
  is_folder: boolean;
  bytes: number;
  changed?: string;
}

export interface Folder {
  at: string;
  endpoint: string;
  entries: FolderEntry[];
  left_out: number;
}
