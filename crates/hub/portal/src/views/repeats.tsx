import { get, remove } from "../api";
import { useAction, useLive } from "../live";
import { Table, Title, Trouble } from "../parts";
import { count, name, time } from "../format";

interface Repeat {
  id: string;
  owner: string;
  source: string;
  target: string;
  files: number;
  every: string;
  at: string;
  next: string;
  last_job?: string;
  error?: string;
}

/** Transfers that are submitted repeatedly. */
export function Repeats() {
  const path = "/api/v1/repeats";
  const { value, problem, refresh } = useLive(() => get<{ repeats: Repeat[] }>(path), 10, path);
  const action = useAction();
  const end = (id: string) => action.act(() => remove(`${path}/${id}`).then(refresh));
  return (
    <>
      <Title text="Repeated transfers"><span class="bar"><a class="button" href="/transfers/new">New transfer</a></span></Title>
      <Trouble problem={action.problem ?? problem} />
      {value?.repeats.length === 0 && <p>Nothing is repeated. To repeat a transfer every night, make a new transfer and enter a time.</p>}
      {value && value.repeats.length > 0 && (
        <Table caption="Repeated" head={["From", "To", "Files", "Owner", "When (UTC)", "Next", "Last run", "End"]}>
          {value.repeats.map((one) => (
            <tr key={one.id}>
              <th scope="row" class="url">{name(one.source)}</th>
              <td class="url">{name(one.target)}</td>
              <td>{count(one.files)}</td>
              <td>{name(one.owner)}</td>
              <td>every {one.every} at {one.at}</td>
              <td>{time(one.next)}</td>
              <td>{one.error ? `✗ ${name(one.error)}` : one.last_job ? <a href={`/transfers/${one.last_job}`}>transfer</a> : "none yet"}</td>
              <td><button type="button" aria-label={`End the repeat of ${name(one.source)}`} onClick={() => end(one.id)}>End</button></td>
            </tr>
          ))}
        </Table>
      )}
      <p><a href={path} download="repeats.json">As JSON</a></p>
    </>
  );
}
