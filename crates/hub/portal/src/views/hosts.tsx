import { get, type Collaboration } from "../api";
import { useLive } from "../live";
import { Table, Title, Trouble } from "../parts";
import { name } from "../format";

interface Finding {
  id: string;
  title: string;
  subject?: string;
  status: string;
  observed?: string;
  wanted?: string;
  unit?: string;
  severity: string;
  why: string;
  command?: string;
  note?: string;
}

const MARKS: Record<string, string> = { ok: "✓", differs: "!", unknown: "?", not_applicable: "–" };

/** The hosts of nodes: the findings of an audit of their settings, with the command that corrects each. */
export function Hosts({ endpoint }: { endpoint?: string }) {
  const described = useLive(() => get<Collaboration>("/api/v1/collaboration"), 60, "collaboration");
  return (
    <>
      <Title text={endpoint === undefined ? "Hosts" : `Host of ${name(endpoint)}`} />
      <Trouble problem={described.problem} />
      <nav aria-label="Hosts" class="bar">
        {Object.keys(described.value?.endpoint ?? {}).map((known) => (
          <a key={known} href={`/hosts/${encodeURIComponent(known)}`} aria-current={known === endpoint ? "page" : undefined}>{name(known)}</a>
        ))}
      </nav>
      {endpoint === undefined ? <p>Choose an endpoint that is a node. If the node runs with <code>--audit</code>, the page shows what <code>longhaul tune audit</code> finds on its host.</p> : <Audit endpoint={endpoint} />}
    </>
  );
}

function Audit({ endpoint }: { endpoint: string }) {
  const path = `/api/v1/endpoints/${encodeURIComponent(endpoint)}/host`;
  const { value, problem } = useLive(() => get<{ findings: Finding[] }>(path), 60, path);
  const shown = (text: string | undefined, unit?: string) => (text === undefined || text === null ? "" : `${name(text)}${unit ? ` ${unit}` : ""}`);
  return (
    <>
      <Trouble problem={problem} />
      {value && (
        <Table caption="Host settings, worst first" head={["State", "Rule", "Object", "Is", "Should be", "Severity", "Why", "Command"]}>
          {value.findings.map((one) => (
            <tr key={one.id + (one.subject ?? "")}>
              <td class="health"><span aria-hidden="true">{MARKS[one.status] ?? "?"} </span>{one.status.replaceAll("_", " ")}</td>
              <th scope="row">{one.id} {name(one.title)}</th>
              <td>{one.subject && name(one.subject)}</td>
              <td>{shown(one.observed, one.unit)}</td>
              <td>{shown(one.wanted, one.unit)}</td>
              <td>{one.severity}</td>
              <td>{name(one.note ?? one.why)}</td>
              <td class="url">{one.status === "differs" && one.command && <code>{name(one.command)}</code>}</td>
            </tr>
          ))}
        </Table>
      )}
      <p><a href={path} download="host.json">As JSON</a></p>
    </>
  );
}
