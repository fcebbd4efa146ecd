import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { get, post, remove } from "../api";
import { useAction, useLive } from "../live";
import { Table, Trouble } from "../parts";
import { name, time } from "../format";

interface Deletion {
  id: string;
  owner: string;
  at: string;
  deleted: string;
  expires: string;
}

/** Counts deletions and undone deletions on this page, so that the list and the folders are read again. */
export const changeCount = signal(0);

/** Deletes a file or folder; this can be undone for a week. */
export async function deleteEntry(at: string): Promise<void> {
  await post<Deletion>("/api/v1/deletions", { at });
  changeCount.value += 1;
}

/** The deleted files and folders, each with a button to take it back. */
export function Deletions() {
  const { value, problem, refresh } = useLive(() => get<{ deletions: Deletion[] }>("/api/v1/deletions"), 60, "deletions");
  const action = useAction();
  useEffect(() => {
    if (changeCount.value > 0) refresh();
  }, [changeCount.value]);
  if (!value || value.deletions.length === 0) return <Trouble problem={problem} />;
  const takeBack = (id: string) => action.act(() => remove(`/api/v1/deletions/${id}`).then(() => { changeCount.value += 1; }));
  return (
    <>
      <Table caption="Deleted files and folders, kept for 7 days" head={["File or folder", "Deleted by", "Deleted", "Kept until", "Undo"]}>
        {value.deletions.map((one) => (
          <tr key={one.id}>
            <th scope="row" class="url">{name(one.at)}</th>
            <td>{name(one.owner)}</td>
            <td>{time(one.deleted)}</td>
            <td>{time(one.expires)}</td>
            <td><button type="button" aria-label={`Restore ${name(one.at)}`} onClick={() => takeBack(one.id)}>Restore</button></td>
          </tr>
        ))}
      </Table>
      <Trouble problem={action.problem} />
    </>
  );
}
