import { useState } from "preact/hooks";

import { get, post, type Collaboration, type Estimate, type Job } from "../api";
import { useAction, useLive } from "../live";
import { Title, Trouble } from "../parts";
import { go } from "../router";
import { bytes, duration, name, rate } from "../format";

/** A source or a target: an endpoint and a path, or a URL. */
interface At {
  url: string;
  path: string;
}

function joined({ url, path }: At): string {
  return url === "" ? path : `${url.replace(/\/+$/, "")}/${path.replace(/^\/+/, "")}`;
}

/** The form for a new transfer. */
export function NewTransfer() {
  const described = useLive(() => get<Collaboration>("/api/v1/collaboration"), 60, "collaboration");
  const [from, setFrom] = useState<At>({ url: "", path: "" });
  const [to, setTo] = useState<At>({ url: "", path: "" });
  const [isTree, setTree] = useState(true);
  const [replaces, setReplaces] = useState(false);
  const [sizeGB, setSize] = useState("");
  const [at, setAt] = useState("");
  const [notify, setNotify] = useState("");
  const [limit, setLimit] = useState("");
  const [estimate, setEstimate] = useState<Estimate>();
  const { problem, act } = useAction();
  const size = sizeGB === "" ? {} : { bytes: Math.round(Number(sizeGB) * 1e9) };
  const order = () => ({ files: [{ sources: [joined(from)], target: joined(to), ...(isTree ? {} : size) }], options: { recursive: isTree, overwrite: replaces }, ...(notify !== "" && { notify }), ...(limit !== "" && { limit_bit_s: Math.round(Number(limit) * 1e6) }) });
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    void act(async () => {
      if (at !== "") {
        await post("/api/v1/repeats", { order: order(), every: "day", at });
        return go("/repeats");
      }
      go(`/transfers/${(await post<Job>("/api/v1/jobs", order())).id}`);
    });
  };
  // An estimate needs a size, which is not known beforehand for a folder.
  const showEstimate = () => act(async () => setEstimate(await post<Estimate>("/api/v1/estimates", { ...order(), files: [{ sources: [joined(from)], target: joined(to), ...size }] })));
  const endpoints = Object.entries(described.value?.endpoint ?? {}).flatMap(([endpoint, { urls }]) => (urls ?? []).map((url) => ({ endpoint, url })));
  return (
    <>
      <Title text="New transfer" />
      <Trouble problem={described.problem} />
      <form class="stack" onSubmit={submit}>
        <Place legend="From" at={from} endpoints={endpoints} onChange={setFrom} />
        <Place legend="To" at={to} endpoints={endpoints} onChange={setTo} />
        <label><input type="checkbox" checked={isTree} onChange={() => setTree(!isTree)} /> It is a folder: move everything in it</label>
        <label><input type="checkbox" checked={replaces} onChange={() => setReplaces(!replaces)} /> Replace files that exist and differ (otherwise they are kept and reported)</label>
        <p class="hint">Every file is verified when it has arrived. Files that the target already has, without a difference, are not moved again.</p>
        <fieldset>
          <legend>Estimate of the time</legend>
          <label>Approximate size, GB <input type="number" min="0" step="any" value={sizeGB} onInput={(event) => setSize(event.currentTarget.value)} /></label>
          <button type="button" onClick={showEstimate}>Estimate</button>
          <div aria-live="polite">{estimate && <EstimateText of={estimate} />}</div>
        </fieldset>
        <label>Repeat every night at (UTC; empty: move once, now) <input type="time" value={at} onInput={(event) => setAt(event.currentTarget.value)} /></label>
        <label>Rate limit, Mbit/s (empty: no limit) <input type="number" min="0" step="any" value={limit} onInput={(event) => setLimit(event.currentTarget.value)} /></label>
        <label>URL to post the job to when it has ended (optional) <input type="url" value={notify} placeholder="https://…" onInput={(event) => setNotify(event.currentTarget.value)} size={40} /></label>
        <button type="submit">Move</button>
        <Trouble problem={problem} />
      </form>
    </>
  );
}

/** The rate of scp and sftp over a round-trip time of 100 ms: they have 2 MiB in flight (the channel window of OpenSSH). */
const OLD_TOOL_BIT_S = (2 * 1024 * 1024 * 8) / 0.1;

function EstimateText({ of }: { of: Estimate }) {
  const old = duration((of.bytes * 8) / OLD_TOOL_BIT_S);
  return (
    <>
      <p>
        {of.seconds === undefined ? "The time is not known" : `About ${duration(of.seconds)} for ${bytes(of.bytes)}`}
        {of.rate_bit_s !== undefined && ` at ${rate(of.rate_bit_s)}`}: {name(of.bound_by)}.
      </p>
      {of.bytes > 0 && <p class="hint">For comparison: scp would take {old} over a path with a round-trip time of 100 ms.</p>}
    </>
  );
}

function Place({ legend, at, endpoints, onChange }: { legend: string; at: At; endpoints: { endpoint: string; url: string }[]; onChange: (at: At) => void }) {
  return (
    <fieldset>
      <legend>{legend}</legend>
      <label>
        Endpoint{" "}
        <select value={at.url} onChange={(event) => onChange({ ...at, url: event.currentTarget.value })}>
          <option value="">none: enter a full URL</option>
          {endpoints.map(({ endpoint, url }) => <option value={url} key={url}>{name(endpoint)} ({name(url)})</option>)}
        </select>
      </label>
      <label>
        {at.url === "" ? "URL" : "Path at the endpoint"}{" "}
        <input value={at.path} required size={50} onInput={(event) => onChange({ ...at, path: event.currentTarget.value })} />
      </label>
    </fieldset>
  );
}
