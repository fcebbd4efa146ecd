import { useEffect, useRef, useState } from "preact/hooks";

import { get, patch, post, remove, type Job, type JobFile, type JobFiles, type Why } from "../api";
import { useAction, useLive } from "../live";
import { State, Table, Title, Trouble } from "../parts";
import { go, parts } from "../router";
import { bytes, count, duration, name, percent, rate, time } from "../shown";

const PAGE = 200;
/** Over how many seconds a rate is told: long enough that a pause of one file is no news. */
const RATE_S = 30;

interface Sample {
  atS: number;
  bytes: number;
}

/** One job: how far it is, how fast, when it is done, what holds it, and what can be done about that. */
export function Transfer({ id }: { id: string }) {
  const { query } = parts();
  const after = query.get("after");
  const base = `/api/v1/jobs/${encodeURIComponent(id)}`;
  const job = useLive(() => get<Job>(base), 1, base);
  const why = useLive(() => get<Why[]>(`${base}/why`), 5, `${base}/why`);
  const filesPath = `${base}/files?limit=${PAGE}${after ? `&after=${after}` : ""}`;
  const files = useLive(() => get<JobFiles>(filesPath), 2, filesPath);
  const { problem, act } = useAction();
  const speed = useSpeed(job.value);
  const change = (what: () => Promise<unknown>) => act(() => what().then(job.again));
  const value = job.value;
  return (
    <>
      <Title text={`Transfer ${id.slice(0, 13)}…`} />
      <Trouble problem={problem ?? job.problem} />
      {value && (
        <>
          <Summary job={value} speed={speed} />
          {value.ended === undefined && why.value?.[0] && <Holding why={why.value[0]} />}
          <div class="bar">
            {value.ended === undefined && (
              <>
                <button type="button" onClick={() => change(() => remove(base))}>Cancel</button>
                <label>
                  Priority{" "}
                  <select value={String(value.priority)} onChange={(event) => change(() => patch(base, { priority: Number(event.currentTarget.value) }))}>
                    {["1", "2", "3", "4", "5"].map((word) => <option key={word}>{word}</option>)}
                  </select>
                </label>
              </>
            )}
            {value.ended !== undefined && value.failed + value.cancelled > 0 && (
              <button type="button" onClick={() => act(() => retry(base))}>Try again what did not arrive</button>
            )}
          </div>
        </>
      )}
      <Trouble problem={files.problem} />
      {files.value && files.value.files.length > 0 && (
        <Table caption="Files" head={["State", "File", "To", "Size", "Attempts", "What went wrong"]}>
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

/** How fast a job has been lately, bit/s, by what was told while the page is open. */
function useSpeed(job: Job | undefined): number | undefined {
  const samples = useRef<Sample[]>([]);
  const [speed, setSpeed] = useState<number>();
  useEffect(() => {
    if (!job) return;
    const now = Date.now() / 1000;
    const all = [...samples.current.filter((sample) => now - sample.atS <= RATE_S), { atS: now, bytes: job.done_bytes }];
    samples.current = all;
    const first = all[0]!;
    if (now - first.atS >= 2) setSpeed(Math.max(0, ((job.done_bytes - first.bytes) * 8) / (now - first.atS)));
  }, [job]);
  return speed;
}

function Summary({ job, speed }: { job: Job; speed?: number }) {
  const part = percent(job.done_bytes, job.bytes);
  const leftS = speed && speed > 0 ? ((job.bytes - job.done_bytes) * 8) / speed : undefined;
  return (
    <>
      <progress class="large" max={100} value={part} aria-label={`${part} percent of the data`} />
      <dl>
        <dt>State</dt>
        <dd><State word={job.state} /></dd>
        <dt>Data</dt>
        <dd>{bytes(job.done_bytes)} of {bytes(job.bytes)} ({part} %)</dd>
        <dt>Files</dt>
        <dd>
          {count(job.done)} of {count(job.files)} there and verified, {count(job.running)} on their way, {count(job.queued)} wait
          {job.failed > 0 && <strong>, {count(job.failed)} failed</strong>}
        </dd>
        {job.ended === undefined && (
          <>
            <dt>Rate</dt>
            <dd>{speed === undefined ? "is being measured" : rate(speed)}</dd>
            <dt>Expected</dt>
            <dd aria-live="off">{leftS === undefined ? "cannot be told while nothing moves" : `in about ${duration(leftS)}, at this rate`}</dd>
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

/** What keeps a job from more, in the hub's words. */
function Holding({ why }: { why: Why }) {
  return (
    <section aria-label="What it waits for" class="holding">
      <p>{why.constraint.text}</p>
      {why.held_by.length > 0 && <p>Held by: {why.held_by.map(name).join(", ")}</p>}
      {why.expected_end && <p>Expected by {time(why.expected_end)}</p>}
    </section>
  );
}

function FileRow({ file }: { file: JobFile }) {
  return (
    <tr>
      <td><State word={file.state} /></td>
      <th scope="row" class="url">{name(file.source)}</th>
      <td class="url">{name(file.target)}</td>
      <td>{file.bytes > 0 ? bytes(file.bytes) : "not known yet"}</td>
      <td>{count(file.attempts)}</td>
      <td>{file.error && `${file.fault ? `${file.fault}: ` : ""}${name(file.error)}`}</td>
    </tr>
  );
}
