import { useEffect, useRef, useState } from "preact/hooks";

import { post, type FolderEntry, type Problem } from "../api";
import { useAction } from "../live";
import { Title, Trouble } from "../parts";
import { Rows } from "../rows";
import { bytes, count, name, percent, time } from "../format";
import { linkOf, put } from "../uploads";

interface SharedContent {
  name: string;
  kind: "read" | "drop";
  owner: string;
  expires: string;
  needs_password: boolean;
  is_folder: boolean;
  entries: FolderEntry[];
  ticket?: string;
}

/** The page of a share link, for people without an account. */
export function Shared({ token }: { token: string }) {
  const base = `/api/v1/shared/${encodeURIComponent(token)}`;
  const [shared, setShared] = useState<SharedContent>();
  const [path, setPath] = useState("");
  const [password, setPassword] = useState("");
  const { problem, act } = useAction();
  const open = (below: string, shown: { password?: string; ticket?: string }) =>
    act(async () => {
      setShared(await post<SharedContent>(base, { path: below, ...shown }));
      setPath(below);
    });
  useEffect(() => void open("", {}), [token]);
  const ticket = shared?.ticket === undefined ? {} : { ticket: shared.ticket };
  const fetchFile = (entry: FolderEntry) =>
    act(async () => {
      const { url } = await post<{ url: string }>(`${base}/downloads`, { path: shared!.is_folder ? path + entry.href : "", ...ticket });
      location.assign(url);
    });
  return (
    <main id="main" tabIndex={-1}>
      <Title text={shared ? name(shared.name) : "Shared with you"} />
      <Trouble problem={problem} />
      {shared && <p>Shared by {name(shared.owner)} until {time(shared.expires)}.</p>}
      {shared?.needs_password && (
        <form onSubmit={(event) => { event.preventDefault(); void open("", { password }); }}>
          <label>Password <input type="password" required autocomplete="off" value={password} onInput={(event) => setPassword(event.currentTarget.value)} /></label>
          <button type="submit">Open</button>
        </form>
      )}
      {shared && !shared.needs_password && shared.kind === "read" && (
        <>
          {path !== "" && <p><button type="button" onClick={() => open(path.split("/").slice(0, -2).map((part) => `${part}/`).join(""), ticket)}>Up</button> {name(decodeURIComponent(path))}</p>}
          <Rows
            label="What is shared"
            head={["Name", "Size", "Changed", "File"]}
            count={shared.entries.length}
            row={(index) => <Entry entry={shared.entries[index]!} onOpen={(entry) => open(`${path}${entry.href}/`, ticket)} onFetch={fetchFile} />}
          />
          <p>{count(shared.entries.length)} entries</p>
        </>
      )}
      {shared && !shared.needs_password && shared.kind === "drop" && <Drop base={base} ticket={ticket} />}
    </main>
  );
}

function Entry({ entry, onOpen, onFetch }: { entry: FolderEntry; onOpen: (entry: FolderEntry) => void; onFetch: (entry: FolderEntry) => void }) {
  const text = name(entry.name);
  return (
    <>
      <td class="name">{entry.is_folder ? <button type="button" class="link" onClick={() => onOpen(entry)}>{text}/</button> : text}</td>
      <td>{entry.is_folder ? "" : bytes(entry.bytes)}</td>
      <td>{time(entry.changed)}</td>
      <td>{!entry.is_folder && <button type="button" class="link" aria-label={`Download ${text}`} onClick={() => onFetch(entry)}>Download</button>}</td>
    </>
  );
}

/** Uploads files into a folder whose contents are not shown. */
function Drop({ base, ticket }: { base: string; ticket: { ticket?: string } }) {
  const input = useRef<HTMLInputElement>(null);
  const [lines, setLines] = useState<Map<string, string>>(new Map());
  const report = (file: string, text: string) => setLines((before) => new Map(before).set(file, text));
  const send = async (files: File[]) => {
    for (const file of files) {
      report(file.name, "starting");
      try {
        const link = linkOf(() => post<{ url: string }>(`${base}/uploads`, { path: encodeURIComponent(file.name), ...ticket }));
        await put(link, `${base} ${file.name}`, file, (sent) => report(file.name, `${percent(sent, file.size)} %`));
        report(file.name, "✓ uploaded");
      } catch (why) {
        report(file.name, `✗ ${(why as Problem).message}`);
      }
    }
  };
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    void send([...(event.dataTransfer?.files ?? [])]);
  };
  return (
    <section aria-label="Put files here" class="holding" onDragOver={(event) => event.preventDefault()} onDrop={onDrop}>
      <p>Files that you put here go to the person who shared the link. You cannot see or replace files that are already here.</p>
      <button type="button" onClick={() => input.current?.click()}>Choose files</button>
      <input ref={input} type="file" multiple hidden aria-label="Files to put here" onChange={(event) => void send([...(event.currentTarget.files ?? [])])} />
      <ul aria-live="polite">{[...lines].map(([file, text]) => <li key={file}>{name(file)}: {text}</li>)}</ul>
    </section>
  );
}
