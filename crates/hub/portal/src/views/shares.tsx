import { get, remove } from "../api";
import { useAction, useLive } from "../live";
import { Table, Title, Trouble } from "../parts";
import { count, name, time } from "../format";
import type { ShareLink } from "./share_form";

/** The share links, for people without an account, each with a button to end it. */
export function Shares() {
  const path = "/api/v1/share-links";
  const { value, problem, refresh } = useLive(() => get<{ links: ShareLink[] }>(path), 10, path);
  const action = useAction();
  const end = (id: string) => action.act(() => remove(`${path}/${id}`).then(refresh));
  return (
    <>
      <Title text="Shared" />
      <Trouble problem={action.problem ?? problem} />
      {value?.links.length === 0 && <p>Nothing is shared. To share a file or folder, mark it under <a href="/files">Files</a> and press <em>Share it</em>.</p>}
      {value && value.links.length > 0 && (
        <Table caption="Links" head={["File or folder", "Access", "Made by", "Made", "Expires", "Password", "Opened", "End"]}>
          {value.links.map((link) => (
            <tr key={link.id}>
              <th scope="row" class="url">{name(link.at)}</th>
              <td>{link.kind === "drop" ? "add new files" : "read"}</td>
              <td>{name(link.owner)}</td>
              <td>{time(link.created)}</td>
              <td>{new Date(link.expires) < new Date() ? "expired" : time(link.expires)}</td>
              <td>{link.has_password ? "yes" : "no"}</td>
              <td>{count(link.opened)} times</td>
              <td><button type="button" aria-label={`End the link to ${name(link.at)}`} onClick={() => end(link.id)}>End</button></td>
            </tr>
          ))}
        </Table>
      )}
      <p><a href={path} download="links.json">As JSON</a></p>
    </>
  );
}
