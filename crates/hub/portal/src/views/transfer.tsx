import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { get, patch, post, remove, type Job, type JobFile, type JobFiles, type JobTransfer, type Why } from "../api";
import { Chart } from "../chart";
import { useAction, useLive } from "../live";
import { State, Table, Title, Trouble } from "../parts";
import { go, parts } from "../router";
import { bytes, count, duration, name, percent, rate, time } from "../format";

const PAGE = 200;
/** The interval over which the shown rate is averaged, seconds: long enough that a pause of one file hardly shows. */
const RATE_S = 30;
/** The time range of the chart, seconds. */
const CHART_S = 3600;

/** The bytes that had arrived at a time, and the rate at that time. */
interface Sample {
  atS: number;
  bytes: number;
  bitS: number;
}

interface Speed {
  /** The average, lowest and highest rate of the last seconds, bit/s. */
  bitS?: number;
  leastBitS?: number;
  mostBitS?: number;
  samples: Sample[];
}

/** One job: its progress, its rate, its expected end, what limits it, and the actions on it. */
export function Transfer({ id }: { id: string }) {
  const { query } = parts();
  const after = query.get("after");
  const base = `/api/v1/jobs/${encodeURIComponent(id)}`;
  const job = useLive(() => get<Job>(base), 1, base);
  const why = useLive(() => get<Why[]>(`${base}/why`), 5, `${base}/why`);
  const filesPath = `${base}/files?limit=${PAGE}${after ? `&after=${after}` : ""}`;
  const files = useLive(() => get<JobFiles>(filesPath), 2, filesPath);
  const transfersPath = `${base}/transfers`;
  const transfers = useLive(() => get<{ transfers: JobTransfer[] }>(transfersPath), 1, transfersPath);
  const { problem, act } = useAction();
  const moving = job.value?.ended === undefined ? (transfers.value?.transfers ?? []) : [];
  const speed = useSpeed(job.value, moving);
  const change = (what: () => Promise<unknown>) => act(() => what().then(job.refresh));
  const value = job.value;
  return (
    <>
      <Title text={`Transfer ${id.slice(0, 13)}…`} />
      <Trouble problem={problem ?? job.problem} />
      {value && (
        <>
          <Summary job={value} speed={speed} />
          {value.ended === undefined && why.value?.[0] && <WaitReason why={why.value[0]} />}
          {value.limited_by && <Verdict limit={value.limited_by} />}
          {speed.samples.length > 2 && speed.samples.some((sample) => sample.bitS > 0) && <Rates samples={speed.samples} />}
          {moving.length > 0 && <Moving transfers={moving} />}
          <div class="bar">
            {value.ended === undefined && (
              <>
                <button type="button" onClick={() => change(() => remove(base))}>Cancel</button>
                <button type="button" onClick={() => change(() => patch(base, { paused: !value.paused }))}>{value.paused ? "Resume" : "Pause"}</button>
                <NotifyButton job={value} />
                <label>
                  Priority{" "}
                  <select value={String(value.priority)} onChange={(event) => change(() => patch(base, { priority: Number(event.currentTarget.value) }))}>
                    {["1", "2", "3", "4", "5"].map((word) => <option key={word}>{word}</option>)}
                  </select>
                </label>
                <Limit job={value} onChange={(limit) => change(() => patch(base, { limit_bit_s: limit }))} />
              </>
            )}
            {value.ended !== undefined && value.failed + value.cancelled > 0 && (
              <button type="button" onClick={() => act(() => retry(base))}>Retry the files that did not arrive</button>
            )}
          </div>
        </>
      )}
      <Trouble problem={files.problem} />
      {files.value && files.value.files.length > 0 && (
        <Table caption="Files" head={["State", "File", "To", "Size", "Attempts", "Error"]}>
          {files.value.files.map((file) => <FileRow file={file} key={file.number} />)}
        </Table>
      )}
      <p class="bar">
        {after && <a href={`/transfers/${id}`}>First files</a>}
        {files.value?.next !== undefined && <a href={`/transfers/${id}?after=${files.value.next}`}>More files</a>}
        <a href={filesPath} download="files.json">As JSON</a>
      </p>
    </>
  );
}

/** The limit of a job. It is set by a form, so that a half typed number has no effect. */
function Limit({ job, onChange }: { job: Job; onChange: (bitS: number) => void }) {
  const current = job.limit_bit_s === undefined ? "" : String(job.limit_bit_s / 1e6);
  const [megabits, setMegabits] = useState(current);
  useEffect(() => setMegabits(current), [current]);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    onChange(Math.round(Number(megabits) * 1e6));
  };
  return (
    <form class="bar" onSubmit={submit}>
      <label>Rate limit, Mbit/s <input type="number" min="0" step="any" value={megabits} placeholder="no limit" onInput={(event) => setMegabits(event.currentTarget.value)} /></label>
      <button type="submit">Limit</button>
    </form>
  );
}

/** Submits the files of a job that did not arrive as a new job. */
async function retry(base: string): Promise<void> {
  const left: { sources: string[]; target: string; bytes?: number; checksum?: string }[] = [];
  let after: number | undefined;
  do {
    const page: JobFiles = await get<JobFiles>(`${base}/files?limit=1000${after === undefined ? "" : `&after=${after}`}`);
    for (const file of page.files) {
      if (file.state !== "failed" && file.state !== "cancelled") continue;
      left.push({ sources: [file.source], target: file.target, ...(file.bytes > 0 && { bytes: file.bytes }), ...(file.checksum && { checksum: file.checksum }) });
    }
    after = page.next;
  } while (after !== undefined);
  const job = await post<Job>("/api/v1/jobs", { files: left });
  go(`/transfers/${job.id}`);
}

/** The rate of a job, from the answers since the page was opened. */
function useSpeed(job: Job | undefined, moving: JobTransfer[]): Speed {
  const [samples, setSamples] = useState<Sample[]>([]);
  const arrived = (job?.done_bytes ?? 0) + moving.reduce((sum, one) => sum + (one.arrived_bytes ?? 0), 0);
  const bitS = moving.reduce((sum, one) => sum + one.rate_bit_s, 0);
  useEffect(() => {
    if (!job) return;
    const now = Date.now() / 1000;
    setSamples((before) => [...before.filter((sample) => now - sample.atS <= CHART_S), { atS: now, bytes: arrived, bitS }]);
  }, [job]);
  const last = samples.at(-1);
  const recent = samples.filter((sample) => last !== undefined && last.atS - sample.atS <= RATE_S);
  const first = recent[0];
  if (!last || !first || last.atS - first.atS < 2) return { samples };
  const rates = recent.map((sample) => sample.bitS);
  return { samples, bitS: rates.reduce((sum, one) => sum + one, 0) / rates.length, leastBitS: Math.min(...rates), mostBitS: Math.max(...rates) };
}

/** The rate since the page was opened. */
function Rates({ samples }: { samples: Sample[] }) {
  const { times, series } = useMemo(() => ({ times: samples.map((one) => one.atS), series: [{ label: "rate", values: samples.map((one) => one.bitS) }] }), [samples]);
  return <Chart caption="Rate since this page was opened" times={times} series={series} shown={rate} />;
}

/** What limited a job, and what can be done about it. */
function Verdict({ limit }: { limit: NonNullable<Job["limited_by"]> }) {
  return (
    <section aria-label="What limited the transfer" class="holding">
      <p><strong>Limited by: {PARTS[limit.part] ?? limit.part}.</strong> {name(limit.evidence)}</p>
      {limit.remedy && <p>What to do: {name(limit.remedy)}</p>}
    </section>
  );
}

const PARTS: Record<string, string> = {
  source: "the disk that is read",
  sender_cpu: "the processor of the sender",
  network: "the network between sender and receiver",
  receiver_cpu: "the processor of the receiver",
  target: "the disk that is written",
  cap: "the rate limit of the transfer",
  latency: "the round trips of many small files",
  outage: "an outage of the path",
  space: "free space at the target",
  lock: "a lock at the target",
};

function Moving({ transfers }: { transfers: JobTransfer[] }) {
  return (
    <Table caption="Moving now" head={["Moved by", "Files", "Arrived", "Rate", "Since"]}>
      {transfers.map((one) => (
        <tr key={one.id}>
          <th scope="row">{name(one.carrier)}</th>
          <td>{count(one.files)}</td>
          <td>{one.arrived_bytes === undefined ? "not known at this hub" : `${bytes(one.arrived_bytes)}${one.bytes > 0 ? ` of ${bytes(one.bytes)}` : ""}`}</td>
          <td>{rate(one.rate_bit_s)}</td>
          <td>{time(one.created)}</td>
        </tr>
      ))}
    </Table>
  );
}

/** A button for a notification of the browser when the job has ended; the page must stay open. */
function NotifyButton({ job }: { job: Job }) {
  const [isAsked, setAsked] = useState(false);
  const wasUnended = useRef(false);
  useEffect(() => {
    if (job.ended === undefined) wasUnended.current = true;
    else if (wasUnended.current && isAsked) new Notification(`Transfer ${job.state}`, { body: `${count(job.done)} of ${count(job.files)} files have arrived` });
  }, [job.ended]);
  if (!("Notification" in window)) return null;
  const ask = () => void Notification.requestPermission().then((answer) => setAsked(answer === "granted"));
  return <button type="button" aria-pressed={isAsked} onClick={ask}>{isAsked ? "You will be notified" : "Notify me when it ends"}</button>;
}

function Summary({ job, speed }: { job: Job; speed: Speed }) {
  const arrived = Math.max(job.done_bytes, speed.samples.at(-1)?.bytes ?? 0);
  const part = job.state === "done" ? 100 : percent(arrived, job.bytes);
  return (
    <>
      {(job.bytes > 0 || job.ended !== undefined) && <progress class="large" max={100} value={part} aria-label={`${part} percent of the data`} />}
      <dl>
        <dt>State</dt>
        <dd><State state={job.state} /></dd>
        <dt>Data</dt>
        <dd>{bytes(arrived)}{job.bytes > 0 ? ` of ${bytes(job.bytes)} (${part} %)` : job.ended === undefined && ", the total is not known yet"}</dd>
        <dt>Files</dt>
        <dd>
          {count(job.done)} of {count(job.files)} arrived and verified, {count(job.running)} moving, {count(job.queued)} waiting
          {job.failed > 0 && <strong>, {count(job.failed)} failed</strong>}
        </dd>
        {job.ended === undefined && (
          <>
            <dt>Rate</dt>
            <dd>{speed.bitS === undefined ? "being measured" : rate(speed.bitS)}</dd>
            <dt>Expected end</dt>
            <dd>{expected(job.bytes - arrived, speed)}</dd>
          </>
        )}
        <dt>Submitted</dt>
        <dd>{time(job.submitted)} by {name(job.owner)}{job.community && ` for ${name(job.community)}`}</dd>
        {job.deadline && <><dt>Deadline</dt><dd>{time(job.deadline)}</dd></>}
        {job.ended && <><dt>Ended</dt><dd>{time(job.ended)}</dd></>}
      </dl>
    </>
  );
}

/** When the rest will have arrived, with a range from the highest and the lowest rate of the last seconds. */
function expected(leftBytes: number, { bitS, leastBitS, mostBitS }: Speed): string {
  if (!bitS) return "not known while nothing moves";
  if (leftBytes <= 0) return "not known, because the total size is not known";
  const at = (rateBitS: number) => duration((leftBytes * 8) / rateBitS);
  const bound = leastBitS && mostBitS ? ` (${at(mostBitS)} to ${at(leastBitS)})` : "";
  return `in about ${at(bitS)}${bound}, at this rate`;
}

/** What a job waits for, in the words of the hub. */
function WaitReason({ why }: { why: Why }) {
  return (
    <section aria-label="What the transfer waits for" class="holding">
      <p>{why.constraint.text}</p>
      {why.held_by.length > 0 && <p>Shares the limit with: {why.held_by.map(name).join(", ")}</p>}
      {why.expected_end && <p>Expected by {time(why.expected_end)}</p>}
    </section>
  );
}

function FileRow({ file }: { file: JobFile }) {
  return (
    <tr>
      <td><State state={file.state} /></td>
      <th scope="row" class="url">{name(file.source)}</th>
      <td class="url">{name(file.target)}</td>
      <td>{file.bytes > 0 ? bytes(file.bytes) : "not known yet"}</td>
      <td>{count(file.attempts)}</td>
      <td>{file.error && `${file.fault ? `${file.fault}: ` : ""}${name(file.error)}`}</td>
    </tr>
  );
}
