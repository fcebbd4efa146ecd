import { useState } from "preact/hooks";

import { get, put, remove, type Collaboration } from "../api";
import { useAction, useLive } from "../live";
import { State, Table, Title, Trouble } from "../parts";
import { name, rate } from "../format";

type Change = (what: () => Promise<unknown>) => Promise<void>;

/** The description, and the changes that an operator may make: stop, drain and start parts, and set the marks of links. */
export function Operate() {
  const path = "/api/v1/collaboration";
  const described = useLive(() => get<Collaboration>(path), 5, path);
  const { problem, act } = useAction();
  const [reason, setReason] = useState("");
  const change: Change = (what) => act(() => what().then(described.refresh));
  const all = described.value;
  const lines = [
    { kind: "all", part: "", stopped: all?.stopped },
    ...Object.entries(all?.site ?? {}).map(([part, site]) => ({ kind: "site", part, stopped: site.stopped })),
    ...Object.entries(all?.endpoint ?? {}).map(([part, endpoint]) => ({ kind: "endpoint", part, stopped: endpoint.stopped })),
    ...Object.entries(all?.link ?? {}).map(([part, link]) => ({ kind: "link", part, stopped: link.stopped })),
    ...Object.entries(all?.community ?? {}).map(([part, community]) => ({ kind: "community", part, stopped: community.stopped })),
  ];
  return (
    <>
      <Title text="Operation" />
      <Trouble problem={problem ?? described.problem} />
      <label>
        Reason, shown to all members: <input value={reason} onInput={(event) => setReason(event.currentTarget.value)} size={40} />
      </label>
      <Table caption="Stops" head={["Object", "State", "Reason", "Change"]}>
        {lines.map((line) => <Stop key={line.kind + line.part} {...line} reason={reason} change={change} />)}
      </Table>
      <Table caption="Links" head={["Link", "Capacity", "Mark", "Change"]}>
        {Object.entries(all?.link ?? {}).map(([part, link]) => <Mark key={part} part={part} capacityBitS={link.capacity_bit_s} mark={link.mark ?? 1} change={change} />)}
      </Table>
      <Table caption="Communities" head={["Community", "Share", "Rate limit", "Activities"]}>
        {Object.entries(all?.community ?? {}).map(([part, community]) => (
          <tr key={part}>
            <th scope="row">{name(part)}</th>
            <td>{community.share ?? 1}</td>
            <td>{community.cap_bit_s === undefined ? "no limit" : rate(community.cap_bit_s)}</td>
            <td>{Object.entries(community.activity ?? {}).map(([activity, of]) => `${name(activity)} ${of.share ?? 1}`).join(", ")}</td>
          </tr>
        ))}
      </Table>
      <p class="hint">Admins set sites, endpoints, links and keys on the command line: <code>longhaul hub site</code>, <code>hub endpoint</code>, <code>hub link</code>, <code>hub grant</code>.</p>
      <p><a href={path} download="collaboration.json">As JSON</a></p>
    </>
  );
}

interface StopProps {
  kind: string;
  part: string;
  stopped?: { reason: string; drain?: boolean };
  reason: string;
  change: Change;
}

function Stop({ kind, part, stopped, reason, change }: StopProps) {
  const of = kind === "all" ? "all" : `${kind}:${encodeURIComponent(part)}`;
  const text = kind === "all" ? "everything" : `${kind} ${name(part)}`;
  const stop = (how: { drain?: boolean; refuse?: boolean }) => change(() => put(`/api/v1/stops/${of}`, { reason, ...how }));
  return (
    <tr>
      <th scope="row">{text}</th>
      <td><State state={stopped ? "paused" : "running"} /></td>
      <td>{stopped && name(stopped.reason)}</td>
      <td class="bar">
        {stopped ? (
          <button type="button" onClick={() => change(() => remove(`/api/v1/stops/${of}`))}>Start {text}</button>
        ) : (
          <>
            <button type="button" onClick={() => stop({ drain: true })}>Drain {text}</button>
            <button type="button" onClick={() => stop({})}>Stop {text}</button>
            <button type="button" onClick={() => stop({ refuse: true })}>Ban {text}</button>
          </>
        )}
      </td>
    </tr>
  );
}

/** The mark of a link, which is the part of it that may be used; the scheduler applies a change within a second. */
function Mark({ part, capacityBitS, mark, change }: { part: string; capacityBitS: number; mark: number; change: Change }) {
  const [percent, setPercent] = useState(String(Math.round(mark * 100)));
  const set = (event: SubmitEvent) => {
    event.preventDefault();
    void change(() => put(`/api/v1/marks/${encodeURIComponent(part)}`, { mark: Number(percent) / 100 }));
  };
  return (
    <tr>
      <th scope="row">{name(part)}</th>
      <td>{rate(capacityBitS)}</td>
      <td>{Math.round(mark * 100)} %, {rate(capacityBitS * mark)}</td>
      <td>
        <form class="bar" onSubmit={set}>
          <label>Percent of {name(part)} <input type="number" min="1" max="100" value={percent} onInput={(event) => setPercent(event.currentTarget.value)} /></label>
          <button type="submit">Set the mark</button>
        </form>
      </td>
    </tr>
  );
}
