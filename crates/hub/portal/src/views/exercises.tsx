import { get, put } from "../api";
import { useAction, useLive } from "../live";
import { Table, Title, Trouble } from "../parts";
import { duration, name, percent, rate, time } from "../format";

interface Flow {
  name: string;
  from: string;
  to: string;
  goal_bit_s?: number;
  rate_bit_s?: number;
  is_active: boolean;
  why?: string;
}

interface Run {
  id: string;
  owner: string;
  reported: string;
  stopped_by?: string;
  progress: { title: string; began: string; doing: string; seconds: number; flows: Flow[]; missing?: string[]; result?: string };
}

/** Without a report for this time a controller is taken for gone, ms. */
const SILENT_MS = 15_000;
/** Flows of a run that are shown: those that are furthest behind. */
const SHOWN_MAX = 50;

/** The board of exercises: what flows achieve, their goals, who is behind and why. */
export function Exercises() {
  const path = "/api/v1/exercises";
  const { value, problem, refresh } = useLive(() => get<{ exercises: Run[] }>(path), 2, path);
  const action = useAction();
  const stop = (id: string) => action.act(() => put(`${path}/${id}/stop`, undefined).then(refresh));
  return (
    <>
      <Title text="Exercises" />
      <Trouble problem={action.problem ?? problem} />
      {value?.exercises.length === 0 && (
        <p>No exercise was reported in the last week. <code>longhaul exercise run FILE --hub {location.origin}</code> shows one here while it runs.</p>
      )}
      {value?.exercises.map((run) => <Board key={run.id} run={run} stop={() => stop(run.id)} />)}
      <p><a href={path} download="exercises.json">As JSON</a></p>
    </>
  );
}

function Board({ run, stop }: { run: Run; stop: () => void }) {
  const { progress } = run;
  const isSilent = Date.now() - new Date(run.reported).getTime() > SILENT_MS;
  const isOver = progress.result !== undefined;
  const title = name(progress.title);
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      <p>
        {isOver ? name(progress.result!) : `${name(progress.doing)}, ${duration(progress.seconds)} since it began`}
        {" "}({name(run.owner)}, {time(progress.began)})
      </p>
      {!isOver && isSilent && (
        <p class="trouble">
          Its controller has not reported since {time(run.reported)}. If it is gone, the nodes cancel its transfers and remove its files by themselves within a minute.
        </p>
      )}
      {run.stopped_by && <p>Stopped by {name(run.stopped_by)}.</p>}
      {progress.missing?.map((text) => <p key={text} class="trouble">{name(text)}</p>)}
      {!isOver && !run.stopped_by && <p><button type="button" aria-label={`Stop ${title}`} onClick={stop}>Stop</button></p>}
      {progress.flows.length > 0 && <Flows flows={progress.flows} />}
    </section>
  );
}

function Flows({ flows }: { flows: Flow[] }) {
  const achieved = flows.reduce((sum, flow) => sum + (flow.rate_bit_s ?? 0), 0);
  const goals = flows.reduce((sum, flow) => sum + (flow.is_active ? (flow.goal_bit_s ?? 0) : 0), 0);
  const behind = flows.filter(isBehind).length;
  const ordered = [...flows].sort((a, b) => part(a) - part(b)).slice(0, SHOWN_MAX);
  return (
    <>
      <p>
        <strong>{rate(achieved)}</strong>
        {goals > 0 && <> of {rate(goals)}; {behind === 0 ? "no flow is behind" : `${behind} of ${flows.length} flows are behind`}</>}
      </p>
      {flows.length > SHOWN_MAX && <p>The {SHOWN_MAX} that are furthest behind:</p>}
      <Table caption="Flows" head={["Flow", "Achieved", "Goal", "Gap", "Of its goal", "Why"]}>
        {ordered.map((flow) => (
          <tr key={flow.name}>
            <th scope="row">{name(flow.name)}</th>
            <td>{flow.rate_bit_s === undefined ? (flow.is_active ? "no sample" : "–") : rate(flow.rate_bit_s)}</td>
            <td>{flow.goal_bit_s === undefined ? "–" : rate(flow.goal_bit_s)}</td>
            <td>{isBehind(flow) ? `✗ ${rate(flow.goal_bit_s! - (flow.rate_bit_s ?? 0))}` : "–"}</td>
            <td>
              {flow.goal_bit_s !== undefined && (
                <meter min={0} max={100} value={percent(flow.rate_bit_s ?? 0, flow.goal_bit_s)} aria-label={`${name(flow.name)}, part of its goal`} />
              )}
            </td>
            <td>{isBehind(flow) && flow.why ? name(flow.why) : ""}</td>
          </tr>
        ))}
      </Table>
    </>
  );
}

/** The part of its goal that a flow achieves; flows without a goal, and those that do not move, come last. */
function part(flow: Flow): number {
  return flow.goal_bit_s === undefined || !flow.is_active ? Number.MAX_VALUE : (flow.rate_bit_s ?? 0) / flow.goal_bit_s;
}

function isBehind(flow: Flow): boolean {
  return part(flow) < 1;
}
