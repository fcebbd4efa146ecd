import { get, type QueueLine, type Share } from "../api";
import { useLive } from "../live";
import { Table, Title, Trouble } from "../parts";
import { bytes, count, name, percent, rate } from "../format";

/** The shares of the links, and the queues with the reason why each waits. */
export function Queue() {
  const shares = useLive(() => get<{ resources: Share[] }>("/api/v1/shares"), 2, "shares");
  const queues = useLive(() => get<{ queues: QueueLine[] }>("/api/v1/queues"), 2, "queues");
  return (
    <>
      <Title text="Queue and shares" />
      <Trouble problem={shares.problem ?? queues.problem} />
      {shares.value && (
        <Table caption="Links, endpoints and communities" head={["Resource", "Usable", "Allocated", "Used now", "Part in use"]}>
          {shares.value.resources.map((share) => (
            <tr key={share.name}>
              <th scope="row">{name(share.name)}</th>
              <td>{rate(share.usable_bit_s)}</td>
              <td>{rate(share.allocated_bit_s)}</td>
              <td>{rate(share.used_bit_s)}</td>
              <td>
                <meter min={0} max={100} value={percent(share.used_bit_s, share.usable_bit_s)} aria-label={`${name(share.name)}: part in use`} />{" "}
                {percent(share.used_bit_s, share.usable_bit_s)} %
              </td>
            </tr>
          ))}
        </Table>
      )}
      {queues.value && (
        <Table caption="Queues" head={["From", "To", "Owner", "Community / activity", "Waiting files", "Moving files", "Allocated", "Used now", "Limited by"]}>
          {queues.value.queues.map((queue) => (
            <tr key={queue.number}>
              <th scope="row">{name(queue.source)}</th>
              <td>{name(queue.target)}</td>
              <td>{name(queue.owner)}</td>
              <td>{name(queue.community)} / {name(queue.activity)}</td>
              <td>{count(queue.queued)} ({bytes(queue.queued_bytes)})</td>
              <td>{count(queue.running)}</td>
              <td>{queue.allocated_bit_s === undefined ? "no limit" : rate(queue.allocated_bit_s)}</td>
              <td>{rate(queue.used_bit_s)}</td>
              <td>{name(queue.constraint.text)}</td>
            </tr>
          ))}
        </Table>
      )}
      {queues.value?.queues.length === 0 && <p>Nothing waits and nothing moves.</p>}
      <p class="bar"><a href="/api/v1/shares" download="shares.json">Shares as JSON</a> <a href="/api/v1/queues" download="queues.json">Queues as JSON</a></p>
    </>
  );
}
