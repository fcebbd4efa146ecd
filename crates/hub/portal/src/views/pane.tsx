import { useEffect, useRef, useState } from "preact/hooks";

import { get, post, type Folder, type FolderEntry, type Job, type Problem } from "../api";
import { csv, save } from "../csv";
import { useAction } from "../live";
import { Trouble } from "../parts";
import { go } from "../router";
import { Rows } from "../rows";
import { bytes, count, name, time } from "../format";
import { filesOf, type Upload } from "../uploads";
import { Crumbs, type Place } from "./crumbs";
import { changeCount, deleteEntry } from "./deletions";
import { Preview } from "./preview";
import { ShareForm } from "./share_form";
import { Uploads } from "./uploading";

export type Side = "left" | "right";
export type { Place };

const OTHER: Record<Side, Side> = { left: "right", right: "left" };
/** The media type of entries that are dragged from pane to pane. */
const DRAGGED = "application/x-longhaul-marked";

interface PaneProps {
  side: Side;
  at: string;
  other: string;
  places: Place[];
  openFolder: (side: Side, url: string) => void;
}

/** The entries of a folder, read when `at` changes; `refresh` reads them again. */
function useFolder(at: string) {
  const [known, setKnown] = useState<{ at: string; folder?: Folder; problem?: Problem }>({ at: "" });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (at === "") return;
    let isOver = false;
    get<Folder>(`/api/v1/folders?at=${encodeURIComponent(at)}`).then(
      (folder) => !isOver && setKnown({ at, folder }),
      (problem: Problem) => !isOver && setKnown({ at, problem }),
    );
    return () => {
      isOver = true;
    };
  }, [at, turn]);
  const { folder, problem } = known.at === at ? known : {};
  return { folder, problem, refresh: () => setTurn((before) => before + 1) };
}

/** One folder, which can be browsed, searched and changed; its entries can be moved into the other one. */
export function Pane({ side, at, other, places, openFolder }: PaneProps) {
  const { folder, problem, refresh } = useFolder(at);
  const action = useAction();
  const [wanted, setWanted] = useState("");
  const [marked, setMarked] = useState<Set<string>>(new Set());
  const [previewed, setPreviewed] = useState<FolderEntry>();
  const [shared, setShared] = useState<string>();
  const [uploads, setUploads] = useState<Upload[]>([]);
  useEffect(() => {
    setMarked(new Set());
    setWanted("");
    setPreviewed(undefined);
    setShared(undefined);
  }, [at]);
  // What was deleted or restored may be in this folder.
  useEffect(() => {
    if (changeCount.value > 0) refresh();
  }, [changeCount.value]);
  const all = folder?.entries ?? [];
  const found = wanted === "" ? all : all.filter((entry) => entry.name.toLowerCase().includes(wanted.toLowerCase()));
  const chosen = all.filter((entry) => marked.has(entry.href));
  const place = places.find(({ url }) => at.startsWith(url));
  const changed = (what: () => Promise<unknown>) => action.act(() => what().then(() => { setMarked(new Set()); refresh(); }));
  const mark = (href: string) => {
    const next = new Set(marked);
    if (!next.delete(href)) next.add(href);
    setMarked(next);
  };
  const fetchFile = (entry: FolderEntry) => action.act(() => post<{ url: string }>("/api/v1/downloads", { at: at + entry.href }).then(({ url }) => open(url)));
  const remove = () => changed(async () => {
    for (const entry of chosen) await deleteEntry(at + entry.href);
  });
  const onKey = (event: KeyboardEvent) => {
    if (event.target instanceof HTMLInputElement && event.target.type !== "checkbox") return;
    if (event.key === "Delete" && chosen.length > 0) void remove();
    else if (event.key === "a" && (event.ctrlKey || event.metaKey)) setMarked(new Set(found.map((entry) => entry.href)));
    else if (event.key === "Escape") setMarked(new Set());
    else return;
    event.preventDefault();
  };
  const onDrop = async (event: DragEvent) => {
    event.preventDefault();
    const dragged = event.dataTransfer?.getData(DRAGGED);
    if (dragged) {
      const { from, entries } = JSON.parse(dragged) as { from: string; entries: FolderEntry[] };
      if (from !== at) await action.act(() => move(from, at, entries));
    } else if (event.dataTransfer) setUploads(await filesOf(event.dataTransfer.items));
  };
  const onDrag = (event: DragEvent, entry: FolderEntry) =>
    event.dataTransfer?.setData(DRAGGED, JSON.stringify({ from: at, entries: marked.has(entry.href) ? chosen : [entry] }));
  const label = side === "left" ? "Left folder" : "Right folder";
  return (
    <section class="pane" aria-label={label} onKeyDown={onKey} onDragOver={(event) => event.preventDefault()} onDrop={onDrop}>
      <label>
        Endpoint{" "}
        <select value={place?.url ?? ""} onChange={(event) => openFolder(side, event.currentTarget.value)}>
          <option value="" disabled>choose one</option>
          {places.map(({ endpoint, url }) => <option value={url} key={url}>{name(endpoint)}</option>)}
        </select>
      </label>
      {at !== "" && place && <Crumbs at={at} place={place} onOpen={(url) => openFolder(side, url)} label={label} />}
      <Trouble problem={action.problem ?? problem} />
      {at !== "" && !folder && !problem && <p>Loading…</p>}
      {folder && (
        <>
          <div class="bar">
            <label>Find <input type="search" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} /></label>
            <button type="button" onClick={refresh}>Refresh</button>
            <button type="button" disabled={chosen.length === 0 || other === ""} onClick={() => action.act(() => move(at, other, chosen))}>
              Move {count(chosen.length)} to the {OTHER[side]}
            </button>
          </div>
          <Changes at={at} chosen={chosen} act={changed} onDelete={remove} onShare={setShared} onUpload={setUploads} />
          {shared !== undefined && <ShareForm at={shared} onClose={() => setShared(undefined)} />}
          {uploads.length > 0 && <Uploads at={at} wanted={uploads} onEnd={() => { setUploads([]); refresh(); }} />}
          <Rows
            label={`What is in the ${side} folder`}
            head={["Name", "Size", "Changed", "File"]}
            count={found.length}
            row={(index) => (
              <Entry entry={found[index]!} isMarked={marked.has(found[index]!.href)} onMark={mark} onOpen={(entry) => openFolder(side, `${at}${entry.href}/`)} onFetch={fetchFile} onPreview={setPreviewed} onDrag={onDrag} />
            )}
          />
          <p>
            {count(found.length)} of {count(all.length)} entries{folder.left_out > 0 && `; ${count(folder.left_out)} more are not shown`}
            {chosen.length > 0 && `; ${count(chosen.length)} marked, ${bytes(chosen.reduce((sum, entry) => sum + entry.bytes, 0))} in files`}{" "}
            <button type="button" class="link" aria-label={`${label} as CSV`} onClick={() => save("folder.csv", "text/csv", folderCsv(all))}>CSV</button>
          </p>
          {previewed && <Preview at={at} entry={previewed} onClose={() => setPreviewed(undefined)} />}
        </>
      )}
    </section>
  );
}

const folderCsv = (all: FolderEntry[]): string =>
  csv([["name", "kind", "bytes", "changed"], ...all.map((entry) => [entry.name, entry.is_folder ? "folder" : "file", String(entry.bytes), entry.changed ?? ""])]);

/** Submits a transfer of entries of a folder into another one, and goes to its page. */
async function move(from: string, to: string, entries: FolderEntry[]): Promise<void> {
  const files = entries.map((entry) => ({ sources: [from + entry.href], target: to + entry.href, ...(!entry.is_folder && { bytes: entry.bytes }) }));
  const job = await post<Job>("/api/v1/jobs", { files, options: { recursive: entries.some((entry) => entry.is_folder) } });
  go(`/transfers/${job.id}`);
}

interface ChangesProps {
  at: string;
  chosen: FolderEntry[];
  act: (what: () => Promise<unknown>) => Promise<void>;
  onDelete: () => void;
  onShare: (at: string) => void;
  onUpload: (wanted: Upload[]) => void;
}

/** The buttons for changes in a folder, and of the marked entries. */
function Changes({ at, chosen, act, onDelete, onShare, onUpload }: ChangesProps) {
  const [text, setText] = useState("");
  const files = useRef<HTMLInputElement>(null);
  const folder = useRef<HTMLInputElement>(null);
  const [one] = chosen;
  const put = (input: HTMLInputElement) => {
    onUpload([...(input.files ?? [])].map((file) => ({ path: file.webkitRelativePath || file.name, file })));
    input.value = "";
  };
  const withNewName = (what: (path: string) => Promise<unknown>) => act(() => what(at + encodeURIComponent(text.trim()))).then(() => setText(""));
  return (
    <div class="bar">
      <label>New name <input value={text} onInput={(event) => setText(event.currentTarget.value)} size={16} /></label>
      <button type="button" disabled={text.trim() === ""} onClick={() => withNewName((path) => post("/api/v1/folders", { at: `${path}/` }))}>Make folder</button>
      <button type="button" disabled={chosen.length !== 1 || text.trim() === ""} onClick={() => withNewName((path) => post("/api/v1/renames", { from: at + one!.href, to: path }))}>Rename</button>
      <button type="button" disabled={chosen.length === 0} onClick={onDelete}>Delete {count(chosen.length)}</button>
      <button type="button" disabled={chosen.length > 1} onClick={() => onShare(one ? at + one.href + (one.is_folder ? "/" : "") : at)}>{one ? "Share it" : "Share the folder"}</button>
      <button type="button" onClick={() => files.current?.click()}>Upload files</button>
      <button type="button" onClick={() => folder.current?.click()}>Upload a folder</button>
      <input ref={files} type="file" multiple hidden aria-label="Files to upload" onChange={(event) => put(event.currentTarget)} />
      <input ref={folder} type="file" hidden aria-label="Folder to upload" {...{ webkitdirectory: true }} onChange={(event) => put(event.currentTarget)} />
    </div>
  );
}

/** Opens a link of an endpoint in a new tab, where the browser shows or saves the file. The bytes come from the endpoint, not through the hub. */
function open(url: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.target = "_blank";
  link.rel = "noopener noreferrer";
  link.click();
}

interface EntryProps {
  entry: FolderEntry;
  isMarked: boolean;
  onMark: (href: string) => void;
  onOpen: (entry: FolderEntry) => void;
  onFetch: (entry: FolderEntry) => void;
  onPreview: (entry: FolderEntry) => void;
  onDrag: (event: DragEvent, entry: FolderEntry) => void;
}

function Entry({ entry, isMarked, onMark, onOpen, onFetch, onPreview, onDrag }: EntryProps) {
  const text = name(entry.name);
  return (
    <>
      <td class="name" draggable onDragStart={(event) => onDrag(event, entry)}>
        <input type="checkbox" checked={isMarked} aria-label={`Mark ${text}`} onChange={() => onMark(entry.href)} />
        {entry.is_folder ? <button type="button" class="link" onClick={() => onOpen(entry)}>{text}/</button> : <button type="button" class="link" aria-label={`Look at ${text}`} onClick={() => onPreview(entry)}>{text}</button>}
      </td>
      <td>{entry.is_folder ? "" : bytes(entry.bytes)}</td>
      <td>{time(entry.changed)}</td>
      <td>{!entry.is_folder && <button type="button" class="link" aria-label={`Download ${text}`} onClick={() => onFetch(entry)}>Download</button>}</td>
    </>
  );
}
