import { get } from "../api";
import { useLive } from "../live";
import { Table, Title, Trouble } from "../parts";
import { parts } from "../router";
import { name, time } from "../format";

interface Action {
  number: number;
  at: string;
  by: string;
  from: string;
  what: string;
  path: string;
  status: number;
}

/** The audit trail: who has changed what. */
export function Actions() {
  const { query } = parts();
  const [before, by] = [query.get("before"), query.get("by") ?? ""];
  const parameters = new URLSearchParams({ limit: "200" });
  if (before) parameters.set("before", before);
  if (by) parameters.set("by", by);
  const path = `/api/v1/actions?${parameters}`;
  const { value, problem } = useLive(() => get<{ actions: Action[]; next?: number }>(path), 10, path);
  return (
    <>
      <Title text="Audit trail" />
      <form class="bar" method="get" action="/actions">
        <label>Member <input name="by" defaultValue={by} /></label>
        <button type="submit">Find</button>
      </form>
      <Trouble problem={problem} />
      {value && (
        <Table caption="Who has changed what" head={["When", "Who", "From address", "Request", "Object", "Status"]}>
          {value.actions.map((one) => (
            <tr key={one.number}>
              <td>{time(one.at)}</td>
              <th scope="row">{one.by === "" ? "a person with a share link" : name(one.by)}</th>
              <td>{name(one.from)}</td>
              <td>{name(one.what)}</td>
              <td class="url">{name(one.path)}</td>
              <td>{one.status}</td>
            </tr>
          ))}
        </Table>
      )}
      <p class="bar">
        {before && <a href="/actions">Newest</a>}
        {value?.next !== undefined && <a href={`/actions?before=${value.next}${by && `&by=${encodeURIComponent(by)}`}`}>Older</a>}
        <a href={path} download="actions.json">As JSON</a>
      </p>
    </>
  );
}
