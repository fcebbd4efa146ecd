import { useState } from "preact/hooks";

import { get, put, remove, type Collaboration } from "../api";
import { useAction, useLive } from "../live";
import { State, Table, Title, Trouble } from "../parts";
import { name } from "../shown";

/** Sites and endpoints: stopped, drained, started. */
export function Operate() {
  const described = useLive(() => get<Collaboration>("/api/v1/collaboration"), 5, "collaboration");
  const { problem, act } = useAction();
  const [reason, setReason] = useState("");
  const change = (what: () => Promise<unknown>) => act(() => what().then(described.again));
  const lines = [
    ...Object.entries(described.value?.site ?? {}).map(([word, site]) => ({ kind: "site", word, stopped: site.stopped })),
    ...Object.entries(described.value?.endpoint ?? {}).map(([word, endpoint]) => ({ kind: "endpoint", word, stopped: endpoint.stopped })),
  ];
  const stop = (of: string, drain: boolean) => change(() => put(`/api/v1/stops/${of}`, { reason, drain }));
  return (
    <>
      <Title text="Operation" />
      <Trouble problem={problem ?? described.problem} />
      <label>
        Why, for whoever asks: <input value={reason} onInput={(event) => setReason(event.currentTarget.value)} size={40} />
      </label>
      <Table caption="Sites and endpoints" head={["What", "State", "Why", "Change"]}>
        {lines.map(({ kind, word, stopped }) => {
          const of = `${kind}:${encodeURIComponent(word)}`;
          return (
            <tr key={of}>
              <th scope="row">{kind} {name(word)}</th>
              <td><State word={stopped ? "paused" : "running"} /></td>
              <td>{stopped && name(stopped.reason)}</td>
              <td class="bar">
                {stopped ? (
                  <button type="button" onClick={() => change(() => remove(`/api/v1/stops/${of}`))}>Start {name(word)}</button>
                ) : (
                  <>
                    <button type="button" onClick={() => stop(of, true)}>Drain {name(word)}</button>
                    <button type="button" onClick={() => stop(of, false)}>Stop {name(word)}</button>
                  </>
                )}
              </td>
            </tr>
          );
        })}
      </Table>
    </>
  );
}
