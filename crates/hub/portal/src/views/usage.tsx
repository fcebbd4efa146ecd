import { get } from "../api";
import { useLive } from "../live";
import { Table, Title, Trouble } from "../parts";
import { bytes, count, name, percent } from "../format";

interface StorageUse {
  endpoint: string;
  site: string;
  files: number;
  bytes: number;
  capacity_bytes?: number;
  held_bytes: number;
  quota_left_bytes?: number;
}

/** The storage of each endpoint: the used and the total capacity, and the quota that is left. */
export function Usage() {
  const path = "/api/v1/storage";
  const { value, problem } = useLive(() => get<{ storage: StorageUse[] }>(path), 10, path);
  return (
    <>
      <Title text="Storage and quotas" />
      <Trouble problem={problem} />
      {value?.storage.length === 0 && <p>No endpoint has storage for the catalogue. Set it with <code>longhaul hub endpoint set NAME --storage URL</code>.</p>}
      {value && value.storage.length > 0 && (
        <Table caption="Storage" head={["Endpoint", "Site", "Files", "Data", "Part of the capacity", "Held by your rules", "Left of your quota"]}>
          {value.storage.map((one) => (
            <tr key={one.endpoint}>
              <th scope="row">{name(one.endpoint)}</th>
              <td>{name(one.site)}</td>
              <td>{count(one.files)}</td>
              <td>{bytes(one.bytes)}</td>
              <td>
                {one.capacity_bytes === undefined ? "not known" : (
                  <>
                    <meter min={0} max={100} value={percent(one.bytes, one.capacity_bytes)} aria-label={`${name(one.endpoint)}: part in use`} /> {percent(one.bytes, one.capacity_bytes)} % of {bytes(one.capacity_bytes)}
                  </>
                )}
              </td>
              <td>{bytes(one.held_bytes)}</td>
              <td>{one.quota_left_bytes === undefined ? "no quota" : bytes(one.quota_left_bytes)}</td>
            </tr>
          ))}
        </Table>
      )}
      <p><a href={path} download="storage.json">As JSON</a></p>
    </>
  );
}
