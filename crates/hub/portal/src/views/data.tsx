import { useState } from "preact/hooks";

import { get, post, type Problem } from "../api";
import { useLive } from "../live";
import { State, Table, Title, Trouble } from "../parts";
import { go, parts } from "../router";
import { bytes, count, name, percent, rate, time } from "../format";

const PAGE = 100;

interface Scope {
  scope: string;
  account: string;
}

interface Data {
  name: string;
  kind: "file" | "dataset" | "container";
  account: string;
  created: string;
  bytes: number;
  entries?: number;
  open?: boolean;
  expires?: string;
}

interface DataList {
  data: Data[];
  next?: string;
}

interface Where {
  files: number;
  bytes: number;
  endpoints: { endpoint: string; files: number; bytes: number; coming_files: number; coming_bytes: number; complete: boolean }[];
}

interface Rule {
  id: string;
  account: string;
  copies: number;
  at: string;
  state: string;
  ok: number;
  replicating: number;
  stuck: number;
  bytes: number;
  bytes_left: number;
  expires?: string;
  error?: string;
}

interface RuleWhy {
  text: string;
  rate_bit_s: number;
  expected?: string;
}

/** The catalogue: the scopes, the names of a scope, or a name. */
export function DataViews() {
  const { path } = parts();
  const [, scope, ...rest] = path;
  if (scope === undefined) return <Scopes />;
  if (rest.length === 0) return <Names scope={scope} />;
  return <Name full={`${scope}:${rest.join("/")}`} />;
}

/** The address of a name's page. */
function page(full: string): string {
  const [scope, ...rest] = full.split(":");
  return `/data/${encodeURIComponent(scope!)}/${encodeURIComponent(rest.join(":"))}`;
}

const api = (full: string): string => `/api/v1/data/${encodeURIComponent(full)}`;

function Scopes() {
  const { value, problem } = useLive(() => get<{ scopes: Scope[] }>("/api/v1/scopes"), 10, "scopes");
  return (
    <>
      <Title text="Datasets" />
      <Trouble problem={problem} />
      {value?.scopes.length === 0 && <p>Nothing is in the catalogue yet. <code>longhaul data put DIR scope:name --at 'region=eu'</code> puts the first dataset there.</p>}
      {value && value.scopes.length > 0 && (
        <Table caption="Scopes" head={["Scope", "Owner"]}>
          {value.scopes.map((one) => (
            <tr key={one.scope}>
              <th scope="row"><a href={`/data/${encodeURIComponent(one.scope)}`}>{name(one.scope)}</a></th>
              <td>{name(one.account)}</td>
            </tr>
          ))}
        </Table>
      )}
    </>
  );
}

function Names({ scope }: { scope: string }) {
  const { query } = parts();
  const [like, setLike] = useState(query.get("name") ?? "");
  const kind = query.get("kind") ?? "dataset";
  const parameters = new URLSearchParams({ scope, limit: String(PAGE) });
  if (kind !== "all") parameters.set("kind", kind);
  for (const [field, parameter] of [["name", "like"], ["after", "after_name"]] as const) {
    const text = query.get(field);
    if (text) parameters.set(parameter, text);
  }
  const path = `/api/v1/data?${parameters}`;
  const { value, problem } = useLive(() => get<DataList>(path), 10, path);
  const here = `/data/${encodeURIComponent(scope)}`;
  const addressWith = (change: Record<string, string | undefined>) => {
    const to = new URLSearchParams(query);
    Object.entries(change).forEach(([field, text]) => (text === undefined || text === "" ? to.delete(field) : to.set(field, text)));
    return `${here}?${to}`;
  };
  return (
    <>
      <Title text={`Data of ${name(scope)}`} />
      <form class="bar" onSubmit={(event) => { event.preventDefault(); go(addressWith({ name: like, after: undefined })); }}>
        <label>Name (* matches any text) <input value={like} onInput={(event) => setLike(event.currentTarget.value)} /></label>
        <label>
          Kind{" "}
          <select value={kind} onChange={(event) => go(addressWith({ kind: event.currentTarget.value, after: undefined }))}>
            {["dataset", "container", "file", "all"].map((word) => <option key={word}>{word}</option>)}
          </select>
        </label>
        <button type="submit">Find</button>
      </form>
      <Trouble problem={problem} />
      {value?.data.length === 0 && <p>No name matches.</p>}
      {value && value.data.length > 0 && (
        <Table caption={`Names of ${name(scope)}`} head={["Name", "Kind", "Size", "Contains", "Created", "Owner"]}>
          {value.data.map((one) => (
            <tr key={one.name}>
              <th scope="row" class="url"><a href={page(one.name)}>{name(one.name)}</a></th>
              <td>{one.kind}</td>
              <td>{one.kind === "container" ? "" : bytes(one.bytes)}</td>
              <td>{one.kind === "file" ? "" : count(one.entries ?? 0)}</td>
              <td>{time(one.created)}</td>
              <td>{name(one.account)}</td>
            </tr>
          ))}
        </Table>
      )}
      <p class="bar">
        {query.get("after") && <a href={addressWith({ after: undefined })}>First</a>}
        {value?.next !== undefined && <a href={addressWith({ after: value.next })}>More</a>}
        <a href={path} download="data.json">As JSON</a>
      </p>
    </>
  );
}

function Name({ full }: { full: string }) {
  const data = useLive(() => get<Data>(api(full)), 10, api(full));
  const where = useLive(() => get<Where>(`${api(full)}/where`), 5, `${api(full)}/where`);
  const rulesPath = `/api/v1/rules?name=${encodeURIComponent(full)}`;
  const rules = useLive(() => get<{ rules: Rule[] }>(rulesPath), 3, rulesPath);
  const [copies, setCopies] = useState("1");
  const [at, setAt] = useState("");
  const [problem, setProblem] = useState<Problem>();
  const make = async (event: SubmitEvent) => {
    event.preventDefault();
    setProblem(undefined);
    try {
      await post("/api/v1/rules", { name: full, copies: Number(copies), at });
      rules.refresh();
    } catch (refused) {
      setProblem(refused as Problem);
    }
  };
  const one = data.value;
  return (
    <>
      <Title text={name(full)} />
      <Trouble problem={data.problem} />
      {one && (
        <dl>
          <dt>Kind</dt>
          <dd>{one.kind}{one.open === false && ", closed: nothing can be added"}</dd>
          {where.value && <><dt>Data</dt><dd>{bytes(where.value.bytes)} in {count(where.value.files)} files</dd></>}
          <dt>Created</dt>
          <dd>{time(one.created)} by {name(one.account)}</dd>
          {one.expires && <><dt>Expires</dt><dd>{time(one.expires)}</dd></>}
        </dl>
      )}
      {where.value && (
        <Table caption="Replicas" head={["Endpoint", "Available", "Being copied", "Complete"]}>
          {where.value.endpoints.map((place) => (
            <tr key={place.endpoint}>
              <th scope="row">{name(place.endpoint)}</th>
              <td>{count(place.files)} files, {bytes(place.bytes)}</td>
              <td>{place.coming_files > 0 ? `${count(place.coming_files)} files, ${bytes(place.coming_bytes)}` : ""}</td>
              <td>{place.complete ? "✓ yes" : "no"}</td>
            </tr>
          ))}
        </Table>
      )}
      <Trouble problem={rules.problem} />
      {rules.value && rules.value.rules.length > 0 && (
        <Table caption="Rules for this data" head={["State", "Copies", "Where", "Progress", "Owner", "Explanation"]}>
          {rules.value.rules.map((rule) => <RuleRow rule={rule} key={rule.id} />)}
        </Table>
      )}
      <form class="bar" onSubmit={make} aria-label="New rule">
        <label>Keep <input type="number" min="1" max="10" value={copies} onInput={(event) => setCopies(event.currentTarget.value)} /> copies</label>
        <label>where <input value={at} required placeholder="region=eu" onInput={(event) => setAt(event.currentTarget.value)} /></label>
        <button type="submit">Make the rule</button>
      </form>
      <Trouble problem={problem} />
    </>
  );
}

function RuleRow({ rule }: { rule: Rule }) {
  const isDone = rule.state === "ok";
  const path = `/api/v1/rules/${rule.id}/why`;
  const why = useLive(() => get<RuleWhy>(path), isDone ? 3600 : 5, path + rule.state);
  const part = isDone ? 100 : percent(rule.bytes - rule.bytes_left, rule.bytes);
  return (
    <tr>
      <td><State state={isDone ? "done" : rule.state === "stuck" ? "failed" : rule.state === "suspended" ? "paused" : "running"} /> ({rule.state})</td>
      <td>{count(rule.copies)}</td>
      <td class="url">{name(rule.at)}</td>
      <td><progress max={100} value={part} aria-label={`${part} percent of the rule`} /> {part} %</td>
      <td>{name(rule.account)}</td>
      <td>
        {why.value ? name(why.value.text) : rule.error && name(rule.error)}
        {why.value && !isDone && why.value.rate_bit_s > 0 && ` (${rate(why.value.rate_bit_s)})`}
      </td>
    </tr>
  );
}
