import { useMemo, useState } from "preact/hooks";

import { get, post } from "../api";
import { Chart } from "../chart";
import { useAction, useLive } from "../live";
import { Table, Title, Trouble } from "../parts";
import { parts } from "../router";
import { duration, name, percentOf, rate, time } from "../format";
import { AlarmTable, Health, type Alarm } from "./alarms";

interface DirectionReport {
  health: string;
  expectation: { rate_bit_s?: number; bound_by?: string; terms: { name: string; rate_bit_s: number; text: string }[]; loss_allowed?: number };
  throughput_bit_s?: number;
  loss_6h?: number;
  loss_24h?: number;
  packets_24h: number;
  hops: string[];
  mtu_bytes?: number;
}

interface Why {
  from: string;
  to: string;
  rtt_s?: number;
  forward: DirectionReport;
  reverse: DirectionReport;
  alarms: Alarm[];
  tests: string[];
  annotations: { at: string; text: string; place: string; by?: string }[];
}

interface History {
  columns: string[];
  rows: (number | null)[][];
  alarms: Alarm[];
}

const SPANS: [string, string][] = [["day", "1d"], ["week", "7d"], ["month", "30d"], ["year", "365d"]];

/** One path: its expected rate, its state, and its history over a day, a week, a month or a year. */
export function Path({ from, to }: { from: string; to: string }) {
  const { query } = parts();
  const span = SPANS.find(([word]) => word === query.get("span")) ?? SPANS[0]!;
  const pair = `from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}`;
  const why = useLive(() => get<Why>(`/api/v1/watch/why?${pair}`), 10, `why ${pair}`);
  const here = `/watch/${encodeURIComponent(from)}/${encodeURIComponent(to)}`;
  const value = why.value;
  return (
    <>
      <Title text={`${name(from)} to ${name(to)}`}>
        <span class="bar"><a class="button" href={`/api/v1/watch/evidence?${pair}`}>Evidence to send to others</a></span>
      </Title>
      <Trouble problem={why.problem} />
      {value && (
        <>
          <p>{value.rtt_s === undefined ? "The round-trip time is not known." : `The round-trip time is ${duration(value.rtt_s)}.`}</p>
          <AlarmTable alarms={value.alarms} caption="Alarms of this path" refresh={why.refresh} />
          <Table caption="Expected and measured" head={["Direction", "State", "Expected rate", "Limited by", "Last rate", "Loss in 24 h", "MTU", "Hops"]}>
            <Direction label="forward" of={value.forward} />
            <Direction label="reverse" of={value.reverse} />
          </Table>
        </>
      )}
      <nav aria-label="Time range" class="bar">
        {SPANS.map(([word]) => <a key={word} href={`${here}?span=${word}`} aria-current={word === span[0] ? "page" : undefined}>{word}</a>)}
      </nav>
      <Latency pair={pair} span={span[1]} />
      <Throughput pair={pair} span={span[1]} />
      {value && <Notes notes={value.annotations} place={value.from} refresh={why.refresh} />}
    </>
  );
}

function Direction({ label, of }: { label: string; of: DirectionReport }) {
  const { expectation } = of;
  return (
    <tr>
      <th scope="row">{label}</th>
      <td><Health health={of.health} /></td>
      <td>{expectation.rate_bit_s === undefined ? "not known" : rate(expectation.rate_bit_s)}</td>
      <td>{expectation.terms.find((term) => term.name === expectation.bound_by)?.text ?? expectation.bound_by ?? ""}</td>
      <td>{of.throughput_bit_s === undefined ? "not measured" : rate(of.throughput_bit_s)}</td>
      <td>{of.loss_24h === undefined ? "not measured" : `${percentOf(of.loss_24h)} of ${of.packets_24h.toLocaleString("en")} packets`}</td>
      <td>{of.mtu_bytes === undefined ? "" : `${of.mtu_bytes} B`}</td>
      <td class="url">{of.hops.map(name).join(" · ")}</td>
    </tr>
  );
}

/** The history of a path, as columns. */
function useHistory(pair: string, test: string, span: string) {
  const path = `/api/v1/watch/history?${pair}&test=${encodeURIComponent(test)}&since=${span}`;
  const live = useLive(() => get<History>(path), 60, path);
  const columns = useMemo(() => {
    const [columns, rows] = [live.value?.columns ?? [], live.value?.rows ?? []];
    const of = (column: string) => rows.map((row) => row[columns.indexOf(column)] ?? null);
    return { times: rows.map((row) => row[0] ?? 0), of };
  }, [live.value]);
  return { ...live, ...columns, path };
}

function Latency({ pair, span }: { pair: string; span: string }) {
  const { times, of, path, problem, value } = useHistory(pair, "latency", span);
  const series = useMemo(() => {
    const sent = of("sent");
    const lost = (column: string) => of(column).map((count, at) => (count === null || !sent[at] ? null : count / sent[at]!));
    const seconds = (column: string) => of(column).map((us) => (us === null ? null : us / 1e6));
    return {
      loss: [{ label: "lost forward", values: lost("lost_forward") }, { label: "lost reverse", values: lost("lost_reverse") }],
      delay: [{ label: "median", values: seconds("rtt_median_us") }, { label: "95 %", values: seconds("rtt_p95_us") }, { label: "minimum", values: seconds("rtt_min_us") }],
    };
  }, [value]);
  if (problem?.status === 404) return <p>The delay and loss of this path are not measured.</p>;
  if (!value) return <Trouble problem={problem} />;
  return (
    <>
      <Chart caption="Packet loss, forward and reverse" times={times} series={series.loss} shown={percentOf} />
      <Chart caption="Round-trip time" times={times} series={series.delay} shown={(s) => `${(s * 1000).toFixed(1)} ms`} />
      <p><a href={path} download="latency.json">Latency as JSON</a></p>
    </>
  );
}

function Throughput({ pair, span }: { pair: string; span: string }) {
  const forward = useHistory(pair, "throughput", span);
  const { times, of, path, value } = forward;
  const series = useMemo(() => [{ label: "rate", values: of("rate_bit_s") }, { label: "expected", values: of("expected_bit_s") }], [value]);
  if (forward.problem?.status === 404) return <p>The throughput of this path is not measured.</p>;
  if (!value) return <Trouble problem={forward.problem} />;
  return (
    <>
      <Chart caption="Throughput" times={times} series={series} shown={rate} />
      <p><a href={path} download="throughput.json">Throughput as JSON</a></p>
    </>
  );
}

/** The notes of operators on events; alarms that begin soon after an event mention it. */
function Notes({ notes, place, refresh }: { notes: Why["annotations"]; place: string; refresh: () => void }) {
  const [text, setText] = useState("");
  const { problem, act } = useAction();
  const note = (event: SubmitEvent) => {
    event.preventDefault();
    void act(() => post("/api/v1/watch/annotations", { text, place }).then(() => { setText(""); refresh(); }));
  };
  return (
    <section aria-label="Notes">
      {notes.length > 0 && <ul>{notes.map((one) => <li key={one.at + one.text}>{time(one.at)}: {name(one.text)}{one.by && ` (${name(one.by)})`}</li>)}</ul>}
      <form class="bar" onSubmit={note}>
        <label>Note what happened (operators) <input value={text} required onInput={(event) => setText(event.currentTarget.value)} size={40} /></label>
        <button type="submit">Note it</button>
      </form>
      <Trouble problem={problem} />
    </section>
  );
}
