import { useState } from "preact/hooks";

import { get, post, type Problem } from "../api";
import { useLive } from "../live";
import { Table, Title, Trouble } from "../parts";
import { bytes, duration, name, rate } from "../format";

interface Description {
  link?: Record<string, unknown>;
  endpoint?: Record<string, unknown>;
}

interface Work {
  name: string;
  files: number;
  done: number;
  bytes: number;
  late: number;
  last_s: number;
}

interface Simulation {
  complete: boolean;
  stopped: boolean;
  simulated_s: number;
  work: Work[];
  resources: { name: string; usable_bit_s: number | null; mean_bit_s: number }[];
}

interface Answer {
  today: Simulation;
  changed: Simulation;
}

const TB = 1e12;

/** What would happen to the queue if a link were cut, a mark lowered, an endpoint added, or a campaign submitted. */
export function WhatIf() {
  const path = "/api/v1/collaboration";
  const { value, problem } = useLive(() => get<Description>(path), 60, path);
  const [answer, setAnswer] = useState<Answer>();
  const [trouble, setTrouble] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const ask = (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setTrouble(undefined);
    post<Answer>("/api/v1/plan/what-if", question(new FormData(event.target as HTMLFormElement)))
      .then(setAnswer, setTrouble)
      .finally(() => setBusy(false));
  };
  const links = Object.keys(value?.link ?? {});
  const endpoints = Object.keys(value?.endpoint ?? {});
  return (
    <>
      <Title text="What if" />
      <p>The hub simulates the waiting files twice with its own scheduler: as things are today, and with the change. It changes nothing.</p>
      <Trouble problem={problem ?? trouble} />
      <form onSubmit={ask}>
        <fieldset>
          <legend>A link</legend>
          <p class="bar">
            <label>Link <Choice name="link" of={links} none="no link" /></label>
            <label>Mark, % (0 cuts the link) <input name="mark" type="number" min="0" max="100" defaultValue="50" /></label>
          </p>
        </fieldset>
        <fieldset>
          <legend>A campaign</legend>
          <p class="bar">
            <label>From <Choice name="source" of={endpoints} none="no campaign" /></label>
            <label>To <Choice name="target" of={endpoints} none="no campaign" /></label>
            <label>TB <input name="terabytes" type="number" min="0.001" step="any" defaultValue="100" /></label>
            <label>Deadline, days (optional) <input name="days" type="number" min="0.01" step="any" /></label>
          </p>
        </fieldset>
        <fieldset>
          <legend>An additional endpoint</legend>
          <p class="bar">
            <label>Name <input name="added" /></label>
            <label>Like <Choice name="like" of={endpoints} none="none" /></label>
          </p>
        </fieldset>
        <p class="bar"><button type="submit" disabled={busy}>{busy ? "Simulating…" : "Simulate"}</button></p>
      </form>
      <div role="status">{answer && <Comparison answer={answer} />}</div>
    </>
  );
}

function Choice({ name: field, of, none }: { name: string; of: string[]; none: string }) {
  return (
    <select name={field}>
      <option value="">{none}</option>
      {of.map((one) => <option key={one} value={one}>{one}</option>)}
    </select>
  );
}

/** The question of the form. */
function question(form: FormData): object {
  const text = (field: string) => String(form.get(field) ?? "").trim();
  const [link, mark] = [text("link"), Number(text("mark")) / 100];
  const [source, target, days] = [text("source"), text("target"), Number(text("days"))];
  const campaign = { source, target, bytes: Math.round(Number(text("terabytes")) * TB), file_bytes: 10e9 };
  return {
    cut: link && mark === 0 ? [link] : [],
    marks: link && mark > 0 ? { [link]: mark } : {},
    add: text("added") && text("like") ? [{ name: text("added"), like: text("like") }] : [],
    campaigns: source && target ? [days > 0 ? { ...campaign, deadline_s: days * 86400 } : campaign] : [],
  };
}

function Comparison({ answer }: { answer: Answer }) {
  const rows: [string, (of: Simulation) => string][] = [
    ["All done", (of) => (of.complete ? `after ${duration(Math.max(0, ...of.work.map((one) => one.last_s)))}` : "no")],
    ["Files that arrive", (of) => `${sum(of, (one) => one.done)} of ${sum(of, (one) => one.files)}`],
    ["Bytes that arrive", (of) => bytes(sum(of, (one) => one.bytes))],
    ["Files that are late", (of) => String(sum(of, (one) => one.late))],
    ["Simulated time", (of) => duration(of.simulated_s) + (of.stopped ? ", not to the end" : "")],
  ];
  return (
    <>
      <Table caption="Today, and with the change" head={["Result", "Today", "Changed"]}>
        {rows.map(([text, show]) => (
          <tr key={text}><th scope="row">{text}</th><td>{show(answer.today)}</td><td>{show(answer.changed)}</td></tr>
        ))}
      </Table>
      <Table caption="Use of resources, with the change" head={["Resource", "Mean rate", "Usable rate"]}>
        {answer.changed.resources.slice(0, 12).map((one) => (
          <tr key={one.name}>
            <th scope="row">{name(one.name)}</th>
            <td>{rate(one.mean_bit_s)}</td>
            <td>{one.usable_bit_s === null ? "not stated" : rate(one.usable_bit_s)}</td>
          </tr>
        ))}
      </Table>
    </>
  );
}

function sum(of: Simulation, value: (work: Work) => number): number {
  return of.work.reduce((all, one) => all + value(one), 0);
}
