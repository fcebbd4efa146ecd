import { get, type QueueLine } from "../api";
import { useLive } from "../live";
import { Table, Title, Trouble } from "../parts";
import { bytes, count, name, rate, time } from "../format";

interface PromisedQueue extends QueueLine {
  deadline?: string;
  promised_bit_s?: number;
  late_bytes?: number;
}

/** The promised transfers, by the day of their deadline. */
export function Promises() {
  const path = "/api/v1/reservations";
  const { value, problem } = useLive(() => get<{ queues: PromisedQueue[] }>(path), 5, path);
  const days = new Map<string, PromisedQueue[]>();
  const sorted = [...(value?.queues ?? [])].sort((one, other) => (one.deadline ?? "").localeCompare(other.deadline ?? ""));
  for (const one of sorted) {
    const day = one.deadline ? new Date(one.deadline).toLocaleDateString("en-GB", { dateStyle: "full" }) : "no deadline";
    days.set(day, [...(days.get(day) ?? []), one]);
  }
  return (
    <>
      <Title text="Reservations" />
      <Trouble problem={problem} />
      {value?.queues.length === 0 && <p>Nothing is promised. A transfer with a deadline reserves the rate that it needs on the links. If they do not have that rate, the hub refuses the transfer and names a deadline that it can promise.</p>}
      {[...days].map(([day, all]) => (
        <section key={day} aria-label={day}>
          <h2>{day}</h2>
          <Table caption={`Promised by ${day}`} head={["Deadline", "From", "To", "Owner", "Still to move", "Reserved rate", "Status"]}>
            {all.map((one) => (
              <tr key={one.number}>
                <td>{time(one.deadline)}</td>
                <th scope="row">{name(one.source)}</th>
                <td>{name(one.target)}</td>
                <td>{name(one.owner)}{one.community && ` (${name(one.community)})`}</td>
                <td>{bytes(one.queued_bytes)} in {count(one.queued + one.running)} files</td>
                <td>{one.promised_bit_s === undefined ? "" : rate(one.promised_bit_s)}</td>
                <td>{one.late_bytes ? `! ${bytes(one.late_bytes)} would be late` : "✓ in time"}</td>
              </tr>
            ))}
          </Table>
        </section>
      ))}
      <p><a href={path} download="reservations.json">As JSON</a></p>
    </>
  );
}
