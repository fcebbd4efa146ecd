import { get } from "../api";
import { useLive } from "../live";
import { Table, Title, Trouble } from "../parts";
import { parts } from "../router";
import { name, time } from "../shown";

interface Fares {
  health: string;
  text: string;
}

interface Cell {
  from: string;
  to: string;
  test: string;
  forward: Fares;
  reverse: Fares;
}

interface Grid {
  names: string[];
  cells: Cell[];
}

interface Alarm {
  id: number;
  from: string;
  to: string;
  kind: string;
  direction?: string;
  severity: string;
  since: string;
  ended?: string;
  evidence: string;
  cause: string;
  segment: string;
  remedy?: string;
}

const TESTS = ["latency", "throughput", "path"];
const MARKS: Record<string, string> = { ok: "✓", warning: "!", critical: "✗", unknown: "?" };

/** The paths of the collaboration, and what is wrong with them. */
export function Watch() {
  const { query } = parts();
  const test = TESTS.includes(query.get("test") ?? "") ? query.get("test")! : "latency";
  const gridPath = `/api/v1/watch/grid?test=${test}`;
  const grid = useLive(() => get<Grid>(gridPath), 10, gridPath);
  const alarms = useLive(() => get<{ alarms: Alarm[] }>("/api/v1/watch/alarms"), 5, "alarms");
  if (grid.problem?.status === 404) {
    return (
      <>
        <Title text="Watch" />
        <p>This hub watches no paths: start it with <code>--watch FILE</code>.</p>
      </>
    );
  }
  return (
    <>
      <Title text="Watch" />
      <Trouble problem={grid.problem ?? alarms.problem} />
      {alarms.value && alarms.value.alarms.length === 0 && <p>Nothing is wrong.</p>}
      {alarms.value && alarms.value.alarms.length > 0 && (
        <Table caption="Alarms" head={["How bad", "Path", "What", "Where", "Since", "Evidence", "What to do"]}>
          {alarms.value.alarms.map((alarm) => (
            <tr key={alarm.id}>
              <td class={`health ${alarm.severity}`}>{MARKS[alarm.severity] ?? "?"} {alarm.severity}</td>
              <th scope="row">{name(alarm.from)} to {name(alarm.to)}{alarm.direction && `, ${alarm.direction}`}</th>
              <td>{alarm.kind}: {alarm.cause.replaceAll("_", " ")}</td>
              <td>{name(alarm.segment)}</td>
              <td>{time(alarm.since)}{alarm.ended && ` to ${time(alarm.ended)}`}</td>
              <td>{name(alarm.evidence)}</td>
              <td>{alarm.remedy && name(alarm.remedy)}</td>
            </tr>
          ))}
        </Table>
      )}
      <nav aria-label="Tests" class="bar">
        {TESTS.map((word) => <a key={word} href={`/watch?test=${word}`} aria-current={word === test ? "page" : undefined}>{word}</a>)}
      </nav>
      {grid.value && <Matrix grid={grid.value} test={test} />}
      <p class="bar"><a href={gridPath} download="grid.json">Grid as JSON</a> <a href="/api/v1/watch/alarms" download="alarms.json">Alarms as JSON</a></p>
    </>
  );
}

/** From the row to the column; a path that nobody measures is a gap. */
function Matrix({ grid, test }: { grid: Grid; test: string }) {
  const known = new Map(grid.cells.flatMap((cell) => [
    [`${cell.from}\n${cell.to}`, cell.forward] as const,
    [`${cell.to}\n${cell.from}`, cell.reverse] as const,
  ]));
  return (
    <Table caption={`Paths by ${test}, from the row to the column`} head={["From", ...grid.names.map(name)]}>
      {grid.names.map((from) => (
        <tr key={from}>
          <th scope="row">{name(from)}</th>
          {grid.names.map((to) => {
            const fares = known.get(`${from}\n${to}`);
            if (!fares) return <td key={to}><span aria-label="not measured">{from === to ? "" : "–"}</span></td>;
            return <td key={to} class={`health ${fares.health}`}>{MARKS[fares.health] ?? "?"} {name(fares.text)}</td>;
          })}
        </tr>
      ))}
    </Table>
  );
}
