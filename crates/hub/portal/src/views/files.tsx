import { useEffect, useState } from "preact/hooks";

import { get, post, Problem, type Collaboration, type Folder, type FolderEntry, type Job } from "../api";
import { useLive } from "../live";
import { Title, Trouble } from "../parts";
import { Rows } from "../rows";
import { go, parts } from "../router";
import { bytes, count, name, time } from "../shown";

type Side = "left" | "right";
const OTHER: Record<Side, Side> = { left: "right", right: "left" };

interface Place {
  word: string;
  url: string;
}

/** Two folders, of whichever endpoints: what is marked in one is moved into the other. Both are in the address. */
export function Files() {
  const { query } = parts();
  const described = useLive(() => get<Collaboration>("/api/v1/collaboration"), 60, "collaboration");
  const places: Place[] = Object.entries(described.value?.endpoint ?? {}).flatMap(([word, endpoint]) =>
    (endpoint.urls ?? []).filter((url) => !url.startsWith("s3:")).map((url) => ({ word, url: url.replace(/\/*$/, "/") })),
  );
  const at = (side: Side) => query.get(side) ?? "";
  const look = (side: Side, url: string) => {
    const to = new URLSearchParams(query);
    to.set(side, url);
    go(`/files?${to}`);
  };
  return (
    <>
      <Title text="Files" />
      <Trouble problem={described.problem} />
      <div class="panes">
        <Pane side="left" at={at("left")} other={at("right")} places={places} look={look} />
        <Pane side="right" at={at("right")} other={at("left")} places={places} look={look} />
      </div>
    </>
  );
}

interface Shown {
  at: string;
  folder?: Folder;
  problem?: Problem;
}

function Pane({ side, at, other, places, look }: { side: Side; at: string; other: string; places: Place[]; look: (side: Side, url: string) => void }) {
  const [shown, setShown] = useState<Shown>({ at: "" });
  const [turn, setTurn] = useState(0);
  const [wanted, setWanted] = useState("");
  const [marked, setMarked] = useState<Set<string>>(new Set());
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
    setMarked(new Set());
    setWanted("");
    if (at === "") return;
    let isOver = false;
    get<Folder>(`/api/v1/folders?at=${encodeURIComponent(at)}`).then(
      (folder) => !isOver && setShown({ at, folder }),
      (refused: Problem) => !isOver && setShown({ at, problem: refused }),
    );
    return () => {
      isOver = true;
    };
  }, [at, turn]);
  const folder = shown.at === at ? shown.folder : undefined;
  const all = folder?.entries ?? [];
  const found = wanted === "" ? all : all.filter((entry) => entry.name.toLowerCase().includes(wanted.toLowerCase()));
  const place = places.find(({ url }) => at.startsWith(url));
  const mark = (href: string) => {
    const next = new Set(marked);
    if (!next.delete(href)) next.add(href);
    setMarked(next);
  };
  const move = async () => {
    setProblem(undefined);
    const chosen = all.filter((entry) => marked.has(entry.href));
    const files = chosen.map((entry) => ({ sources: [at + entry.href], target: other + entry.href, ...(!entry.is_folder && { bytes: entry.bytes }) }));
    try {
      const job = await post<Job>("/api/v1/jobs", { files, options: { recursive: chosen.some((entry) => entry.is_folder) } });
      go(`/transfers/${job.id}`);
    } catch (refused) {
      setProblem(refused as Problem);
    }
  };
  const fetchFile = async (entry: FolderEntry) => {
    setProblem(undefined);
    try {
      const { url } = await post<{ url: string }>("/api/v1/downloads", { at: at + entry.href });
      open(url);
    } catch (refused) {
      setProblem(refused as Problem);
    }
  };
  const label = side === "left" ? "Left folder" : "Right folder";
  return (
    <section class="pane" aria-label={label}>
      <label>
        Endpoint{" "}
        <select value={place?.url ?? ""} onChange={(event) => look(side, event.currentTarget.value)}>
          <option value="" disabled>choose one</option>
          {places.map(({ word, url }) => <option value={url} key={url}>{name(word)}</option>)}
        </select>
      </label>
      {at !== "" && place && <Crumbs at={at} place={place} onLook={(url) => look(side, url)} label={label} />}
      <Trouble problem={problem ?? (shown.at === at ? shown.problem : undefined)} />
      {at !== "" && !folder && !shown.problem && <p>Looking…</p>}
      {folder && (
        <>
          <div class="bar">
            <label>Find <input type="search" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} /></label>
            <button type="button" onClick={() => setTurn(turn + 1)}>Look again</button>
            <button type="button" disabled={marked.size === 0 || other === ""} onClick={move}>
              Move {count(marked.size)} to the {OTHER[side]}
            </button>
          </div>
          <Rows
            label={`What is in the ${side} folder`}
            head={["Name", "Size", "Changed", "Download"]}
            count={found.length}
            row={(index) => <Entry entry={found[index]!} isMarked={marked.has(found[index]!.href)} onMark={mark} onOpen={(entry) => look(side, `${at}${entry.href}/`)} onFetch={fetchFile} />}
          />
          <p>
            {count(found.length)} of {count(all.length)} entries{folder.left_out > 0 && `; ${count(folder.left_out)} more are not shown`}
            {marked.size > 0 && `; ${count(marked.size)} marked, ${bytes(all.filter((entry) => marked.has(entry.href)).reduce((sum, entry) => sum + entry.bytes, 0))} in files`}
          </p>
        </>
      )}
    </section>
  );
}

/** The way down to a folder: each part leads there. */
function Crumbs({ at, place, onLook, label }: { at: string; place: Place; onLook: (url: string) => void; label: string }) {
  const below = at.slice(place.url.length).split("/").filter((part) => part !== "");
  const shown = (part: string) => {
    try {
      return name(decodeURIComponent(part));
    } catch {
      return part;
    }
  };
  return (
    <nav aria-label={`Path of the ${label.toLowerCase()}`} class="crumbs">
      <button type="button" onClick={() => onLook(place.url)}>{name(place.word)}</button>
      {below.map((part, depth) => (
        <button type="button" key={depth} aria-current={depth === below.length - 1 ? "page" : undefined} onClick={() => onLook(`${place.url}${below.slice(0, depth + 1).join("/")}/`)}>
          / {shown(part)}
        </button>
      ))}
    </nav>
  );
}

/** Opens a link of an endpoint in a page of its own: the browser shows the file, or keeps it. The bytes come from there, and not by the hub. */
function open(url: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.target = "_blank";
  link.rel = "noopener noreferrer";
  link.click();
}

interface EntryOf {
  entry: FolderEntry;
  isMarked: boolean;
  onMark: (href: string) => void;
  onOpen: (entry: FolderEntry) => void;
  onFetch: (entry: FolderEntry) => void;
}

function Entry({ entry, isMarked, onMark, onOpen, onFetch }: EntryOf) {
  const text = name(entry.name);
  return (
    <>
      <td class="name">
        <input type="checkbox" checked={isMarked} aria-label={`Mark ${text}`} onChange={() => onMark(entry.href)} />
        {entry.is_folder ? <button type="button" class="link" onClick={() => onOpen(entry)}>{text}/</button> : <span>{text}</span>}
      </td>
      <td>{entry.is_folder ? "" : bytes(entry.bytes)}</td>
      <td>{time(entry.changed)}</td>
      <td>{!entry.is_folder && <button type="button" class="link" aria-label={`Download ${text}`} onClick={() => onFetch(entry)}>Download</button>}</td>
    </>
  );
}
