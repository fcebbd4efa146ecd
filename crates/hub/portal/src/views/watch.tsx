import { get } from "../api";
import { useLive } from "../live";
import { Table, Title, Trouble } from "../parts";
import { parts } from "../router";
import { bytes, count, name, percentOf, rate, time } from "../format";
import { AlarmTable, Health, pathPage, type Alarm } from "./alarms";
import { Path } from "./path";

interface DirectionHealth {
  health: string;
  text: string;
}

interface Grid {
  names: string[];
  cells: { from: string; to: string; test: string; forward: DirectionHealth; reverse: DirectionHealth }[];
}

const TESTS = ["latency", "throughput", "path"];
/** The pages of the watch; the first one has the grid. */
const PAGES: [string, string][] = [["", "Paths"], ["alarms", "Alarms"], ["talkers", "Top talkers"], ["interfaces", "Interfaces"], ["nodes", "Nodes"]];

/** The paths of the collaboration, and what is wrong with them. */
export function Watch() {
  const { path } = parts();
  const [, first, second] = path;
  if (first !== undefined && second !== undefined) return <Path from={first} to={second} />;
  return (
    <>
      <Title text="Watch" />
      <nav aria-label="Watch" class="bar">
        {PAGES.map(([word, text]) => <a key={word} href={`/watch${word && `/${word}`}`} aria-current={word === (first ?? "") ? "page" : undefined}>{text}</a>)}
      </nav>
      {first === undefined && <Paths />}
      {first === "alarms" && <Alarms />}
      {first === "talkers" && <Talkers />}
      {first === "interfaces" && <Interfaces />}
      {first === "nodes" && <Nodes />}
    </>
  );
}

function Paths() {
  const { query } = parts();
  const test = TESTS.includes(query.get("test") ?? "") ? query.get("test")! : "latency";
  const gridPath = `/api/v1/watch/grid?test=${test}`;
  const grid = useLive(() => get<Grid>(gridPath), 10, gridPath);
  const alarms = useLive(() => get<{ alarms: Alarm[] }>("/api/v1/watch/alarms"), 5, "alarms");
  if (grid.problem?.status === 404) return <p>This hub watches no paths. To watch paths, start the hub with <code>--watch FILE</code>.</p>;
  return (
    <>
      <Trouble problem={grid.problem ?? alarms.problem} />
      {alarms.value && <AlarmTable alarms={alarms.value.alarms} caption="Alarms" refresh={alarms.refresh} />}
      <nav aria-label="Tests" class="bar">
        {TESTS.map((word) => <a key={word} href={`/watch?test=${word}`} aria-current={word === test ? "page" : undefined}>{word}</a>)}
      </nav>
      {grid.value && <Matrix grid={grid.value} test={test} />}
      <p class="bar"><a href={gridPath} download="grid.json">Grid as JSON</a> <a href="/api/v1/watch/alarms" download="alarms.json">Alarms as JSON</a></p>
    </>
  );
}

/** A grid of the paths from the endpoint of the row to that of the column; a path that is not measured has a dash. */
function Matrix({ grid, test }: { grid: Grid; test: string }) {
  const known = new Map(grid.cells.flatMap((cell) => [
    [`${cell.from}\n${cell.to}`, { state: cell.forward, page: pathPage(cell.from, cell.to) }] as const,
    [`${cell.to}\n${cell.from}`, { state: cell.reverse, page: pathPage(cell.from, cell.to) }] as const,
  ]));
  return (
    <Table caption={`Paths by ${test}, from the row to the column`} head={["From", ...grid.names.map(name)]}>
      {grid.names.map((from) => (
        <tr key={from}>
          <th scope="row">{name(from)}</th>
          {grid.names.map((to) => {
            const cell = known.get(`${from}\n${to}`);
            if (!cell) return <td key={to}>{from !== to && <><span aria-hidden="true">–</span><span class="unseen">not measured</span></>}</td>;
            return <td key={to}><a href={cell.page} aria-label={`${name(from)} to ${name(to)}: ${cell.state.health}, ${name(cell.state.text)}`}><Health health={cell.state.health} text={name(cell.state.text)} /></a></td>;
          })}
        </tr>
      ))}
    </Table>
  );
}

/** The alarms of a time range, ended ones included. */
function Alarms() {
  const { query } = parts();
  const since = query.get("since") ?? "7d";
  const path = `/api/v1/watch/alarms?since=${encodeURIComponent(since)}`;
  const alarms = useLive(() => get<{ alarms: Alarm[] }>(path), 10, path);
  return (
    <>
      <nav aria-label="Time range" class="bar">
        {["1d", "7d", "30d", "365d"].map((word) => <a key={word} href={`/watch/alarms?since=${word}`} aria-current={word === since ? "page" : undefined}>{word}</a>)}
      </nav>
      <Trouble problem={alarms.problem} />
      {alarms.value && <AlarmTable alarms={alarms.value.alarms} caption={`Alarms of the last ${since}`} refresh={alarms.refresh} />}
      <p><a href={path} download="alarms.json">As JSON</a></p>
    </>
  );
}

interface TalkersAnswer {
  window: string;
  talkers: { address: string; bytes_sent: number; bytes_received: number; rate_bit_s: number; nodes: string[] }[];
  nodes: { node: string; seconds: number; bytes_in: number; bytes_out: number }[];
}

/** The addresses with the most traffic. */
function Talkers() {
  const { query } = parts();
  const span = query.get("window") ?? "hour";
  const path = `/api/v1/watch/talkers?window=${encodeURIComponent(span)}&top=100`;
  const { value, problem } = useLive(() => get<TalkersAnswer>(path), 10, path);
  return (
    <>
      <nav aria-label="Time range" class="bar">
        {["minute", "hour", "start"].map((word) => <a key={word} href={`/watch/talkers?window=${word}`} aria-current={word === span ? "page" : undefined}>{word === "start" ? "since each node started" : `last ${word}`}</a>)}
      </nav>
      <Trouble problem={problem} />
      {value && (
        <>
          <Table caption="Addresses with the most traffic" head={["Address", "Rate", "Sent", "Received", "Nodes"]}>
            {value.talkers.map((one) => (
              <tr key={one.address}>
                <th scope="row">{name(one.address)}</th>
                <td>{rate(one.rate_bit_s)}</td>
                <td>{bytes(one.bytes_sent)}</td>
                <td>{bytes(one.bytes_received)}</td>
                <td>{one.nodes.map(name).join(", ")}</td>
              </tr>
            ))}
          </Table>
          <Table caption="Traffic of each node" head={["Node", "Seconds", "In", "Out"]}>
            {value.nodes.map((one) => (
              <tr key={one.node}>
                <th scope="row">{name(one.node)}</th>
                <td>{count(Math.round(one.seconds))}</td>
                <td>{bytes(one.bytes_in)}</td>
                <td>{bytes(one.bytes_out)}</td>
              </tr>
            ))}
          </Table>
        </>
      )}
      <p><a href={path} download="talkers.json">As JSON</a></p>
    </>
  );
}

interface Interface {
  name: string;
  at?: string;
  capacity_bit_s?: number;
  in_bit_s?: number;
  out_bit_s?: number;
  in_utilisation?: number;
  out_utilisation?: number;
  errors_6h: number;
  light_in_dbm?: number;
  error?: string;
}

/** Interfaces whose counters are read. */
function Interfaces() {
  const path = "/api/v1/watch/interfaces";
  const { value, problem } = useLive(() => get<{ interfaces: Interface[] }>(path), 10, path);
  const used = (bitS?: number, part?: number) => (bitS === undefined ? "not known" : `${rate(bitS)}${part === undefined ? "" : ` (${percentOf(part)})`}`);
  return (
    <>
      <Trouble problem={problem} />
      {value?.interfaces.length === 0 && <p>No interface counters are read. Add <code>[interface.NAME]</code> to the file of the watch.</p>}
      {value && value.interfaces.length > 0 && (
        <Table caption="Interfaces" head={["Interface", "Capacity", "In", "Out", "Errors in 6 h", "Optical input", "Last read", "Error"]}>
          {value.interfaces.map((one) => (
            <tr key={one.name}>
              <th scope="row">{name(one.name)}</th>
              <td>{one.capacity_bit_s === undefined ? "" : rate(one.capacity_bit_s)}</td>
              <td>{used(one.in_bit_s, one.in_utilisation)}</td>
              <td>{used(one.out_bit_s, one.out_utilisation)}</td>
              <td>{count(one.errors_6h)}</td>
              <td>{one.light_in_dbm === undefined ? "" : `${one.light_in_dbm.toFixed(1)} dBm`}</td>
              <td>{time(one.at)}</td>
              <td>{one.error && name(one.error)}</td>
            </tr>
          ))}
        </Table>
      )}
      <p><a href={path} download="interfaces.json">As JSON</a></p>
    </>
  );
}

interface NodeStatus {
  node: string;
  tests: number;
  refused: string[];
  measurements: number;
  disbelieved: number;
  disbelieved_why: string;
  dropped: number;
  error?: string;
  heard?: string;
}

/** The nodes that measure, and the tests that they refuse. */
function Nodes() {
  const path = "/api/v1/watch/nodes";
  const { value, problem } = useLive(() => get<NodeStatus[]>(path), 10, path);
  return (
    <>
      <Trouble problem={problem} />
      {value && (
        <Table caption="Nodes that measure" head={["Node", "Last report", "Tests", "Measurements", "Rejected", "Lost at the node", "Error"]}>
          {value.map((one) => (
            <tr key={one.node}>
              <th scope="row">{name(one.node)}</th>
              <td>{one.heard ? time(one.heard) : "never"}</td>
              <td>{count(one.tests)}</td>
              <td>{count(one.measurements)}</td>
              <td>{count(one.disbelieved)}{one.disbelieved_why && `: ${name(one.disbelieved_why)}`}</td>
              <td>{count(one.dropped)}</td>
              <td>{[one.error, ...one.refused].filter((text): text is string => !!text).map(name).join("; ")}</td>
            </tr>
          ))}
        </Table>
      )}
      <p><a href={path} download="nodes.json">As JSON</a></p>
    </>
  );
}
