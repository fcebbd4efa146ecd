import { useState } from "preact/hooks";

import { get, post, type Collaboration, type Job, type Problem } from "../api";
import { useLive } from "../live";
import { Title, Trouble } from "../parts";
import { go } from "../router";
import { name } from "../shown";

/** Where something is, or is to be: an endpoint and a path, or a URL. */
interface At {
  url: string;
  path: string;
}

function joined({ url, path }: At): string {
  return url === "" ? path : `${url.replace(/\/+$/, "")}/${path.replace(/^\/+/, "")}`;
}

/** Asks for what is to be moved where. */
export function NewTransfer() {
  const described = useLive(() => get<Collaboration>("/api/v1/collaboration"), 60, "collaboration");
  const [from, setFrom] = useState<At>({ url: "", path: "" });
  const [to, setTo] = useState<At>({ url: "", path: "" });
  const [isTree, setTree] = useState(true);
  const [replaces, setReplaces] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setProblem(undefined);
    try {
      const options = { recursive: isTree, overwrite: replaces };
      const job = await post<Job>("/api/v1/jobs", { files: [{ sources: [joined(from)], target: joined(to) }], options });
      go(`/transfers/${job.id}`);
    } catch (refused) {
      setProblem(refused as Problem);
    }
  };
  const endpoints = Object.entries(described.value?.endpoint ?? {}).flatMap(([word, endpoint]) => (endpoint.urls ?? []).map((url) => ({ word, url })));
  return (
    <>
      <Title text="New transfer" />
      <Trouble problem={described.problem} />
      <form class="stack" onSubmit={submit}>
        <Place legend="From" at={from} endpoints={endpoints} onChange={setFrom} />
        <Place legend="To" at={to} endpoints={endpoints} onChange={setTo} />
        <label><input type="checkbox" checked={isTree} onChange={() => setTree(!isTree)} /> It is a folder: move all that is in it</label>
        <label><input type="checkbox" checked={replaces} onChange={() => setReplaces(!replaces)} /> Replace files that are there and differ (otherwise they are left, and told of)</label>
        <p class="hint">Every file is verified when it has arrived. What was there before, and is the same, is not moved again.</p>
        <button type="submit">Move</button>
        <Trouble problem={problem} />
      </form>
    </>
  );
}

function Place({ legend, at, endpoints, onChange }: { legend: string; at: At; endpoints: { word: string; url: string }[]; onChange: (at: At) => void }) {
  return (
    <fieldset>
      <legend>{legend}</legend>
      <label>
        Endpoint{" "}
        <select value={at.url} onChange={(event) => onChange({ ...at, url: event.currentTarget.value })}>
          <option value="">by its whole URL</option>
          {endpoints.map(({ word, url }) => <option value={url} key={url}>{name(word)} ({name(url)})</option>)}
        </select>
      </label>
      <label>
        {at.url === "" ? "URL" : "Path below it"}{" "}
        <input value={at.path} required size={50} onInput={(event) => onChange({ ...at, path: event.currentTarget.value })} />
      </label>
    </fieldset>
  );
}
