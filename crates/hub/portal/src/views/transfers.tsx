import { useState } from "preact/hooks";

import { get, type Job, type Jobs, type WhoAmI } from "../api";
import { useLive } from "../live";
import { State, Table, Title, Trouble } from "../parts";
import { go, parts } from "../router";
import { bytes, count, name, percent, time } from "../format";

const PAGE = 100;

/** The jobs of the hub's queue, the newest first. */
export function Transfers({ who }: { who: WhoAmI }) {
  const { query } = parts();
  const isAll = query.get("of") === "all";
  const before = query.get("before");
  const path = `/api/v1/jobs?limit=${PAGE}${isAll ? "" : `&owner=${encodeURIComponent(who.owner)}`}${before ? `&before=${encodeURIComponent(before)}` : ""}`;
  const { value, problem } = useLive(() => get<Jobs>(path), 2, path);
  const [wanted, setWanted] = useState("");
  const addressWith = (change: Record<string, string | undefined>) => {
    const to = new URLSearchParams(query);
    Object.entries(change).forEach(([word, text]) => (text === undefined ? to.delete(word) : to.set(word, text)));
    return `/transfers?${to}`;
  };
  return (
    <>
      <Title text="Transfers">
        <span class="bar"><a class="button" href="/files">Choose files</a> <a class="button" href="/transfers/new">New transfer</a> <a class="button" href="/repeats">Repeated</a></span>
      </Title>
      <form class="bar" onSubmit={(event) => { event.preventDefault(); if (wanted.trim()) go(`/transfers/${encodeURIComponent(wanted.trim())}`); }}>
        <label>
          <input type="checkbox" checked={isAll} onChange={() => go(addressWith({ of: isAll ? undefined : "all", before: undefined }))} /> Show transfers of other members
        </label>
        <label>
          Open by id <input value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} size={38} />
        </label>
        <button type="submit">Open</button>
      </form>
      <Trouble problem={problem} />
      {value && value.jobs.length === 0 && <p>Nothing has been submitted yet. <a href="/transfers/new">Start a transfer</a>, or use <code>longhaul submit</code>.</p>}
      {value && value.jobs.length > 0 && (
        <Table caption={isAll ? "All transfers" : "Your transfers"} head={["State", "Transfer", "Owner", "Submitted", "Files", "Data", "Progress"]}>
          {value.jobs.map((job) => <Row job={job} key={job.id} />)}
        </Table>
      )}
      <p class="bar">
        {before && <a href={addressWith({ before: undefined })}>Newest</a>}
        {value?.next !== undefined && <a href={addressWith({ before: String(value.next) })}>Older</a>}
        <a href={path} download="transfers.json">As JSON</a>
      </p>
    </>
  );
}

function Row({ job }: { job: Job }) {
  const part = job.state === "done" ? 100 : percent(job.done_bytes, job.bytes);
  return (
    <tr>
      <td><State state={job.state} /></td>
      <th scope="row"><a href={`/transfers/${job.id}`}>{job.id.slice(0, 13)}…</a></th>
      <td>{name(job.owner)}</td>
      <td>{time(job.submitted)}</td>
      <td>{count(job.done)} of {count(job.files)}{job.failed > 0 && `, ${count(job.failed)} failed`}</td>
      <td>{bytes(job.done_bytes)}{job.bytes > 0 && ` of ${bytes(job.bytes)}`}</td>
      <td><progress max={100} value={part} aria-label={`${part} percent of the data`} /> {part} %</td>
    </tr>
  );
}
