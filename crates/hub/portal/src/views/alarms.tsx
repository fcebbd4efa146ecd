import { post } from "../api";
import { useAction } from "../live";
import { Table, Trouble } from "../parts";
import { name, time } from "../format";

export interface Alarm {
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
  acknowledged?: { by: string; note: string };
}

const MARKS: Record<string, string> = { ok: "✓", warning: "!", critical: "✗", unknown: "?" };

/** The health of something: a mark and a word, not only a colour. */
export function Health({ health, text }: { health: string; text?: string }) {
  return <span class={`health ${health}`}><span aria-hidden="true">{MARKS[health] ?? "?"} </span>{text ?? health}</span>;
}

/** The page of a path. */
export const pathPage = (from: string, to: string): string => `/watch/${encodeURIComponent(from)}/${encodeURIComponent(to)}`;

/** Alarms with their evidence. A reader can acknowledge one, and then no more notices of it are sent. */
export function AlarmTable({ alarms, caption, refresh }: { alarms: Alarm[]; caption: string; refresh: () => void }) {
  const { problem, act } = useAction();
  if (alarms.length === 0) return <p>There are no alarms.</p>;
  const acknowledge = (alarm: Alarm) => act(() => post(`/api/v1/watch/alarms/${alarm.id}/acknowledgement`, { by: "", note: "" }).then(refresh));
  return (
    <>
      <Table caption={caption} head={["Severity", "Path", "Problem", "Where", "Since", "Evidence", "Remedy", "Acknowledged"]}>
        {alarms.map((alarm) => (
          <tr key={alarm.id}>
            <td><Health health={alarm.severity} /></td>
            <th scope="row"><a href={pathPage(alarm.from, alarm.to)}>{name(alarm.from)} to {name(alarm.to)}</a>{alarm.direction && `, ${alarm.direction}`}</th>
            <td>{alarm.kind}: {alarm.cause.replaceAll("_", " ")}</td>
            <td>{name(alarm.segment)}</td>
            <td>{time(alarm.since)}{alarm.ended && ` to ${time(alarm.ended)}`}</td>
            <td>{name(alarm.evidence)}</td>
            <td>{alarm.remedy && name(alarm.remedy)}</td>
            <td>
              {alarm.acknowledged ? `by ${name(alarm.acknowledged.by)}` : alarm.ended === undefined && (
                <button type="button" class="link" aria-label={`Acknowledge alarm ${alarm.id}`} onClick={() => acknowledge(alarm)}>Acknowledge</button>
              )}
            </td>
          </tr>
        ))}
      </Table>
      <Trouble problem={problem} />
    </>
  );
}
