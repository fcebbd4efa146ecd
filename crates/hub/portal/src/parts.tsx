/** Parts that several views use. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

import type { Problem } from "./api";
import { csv, rowsOf, save } from "./csv";

/** The title of a page, which is also the title of its tab. */
export function Title({ text, children }: { text: string; children?: ComponentChildren }) {
  useEffect(() => {
    document.title = `${text} – Longhaul`;
  }, [text]);
  return (
    <div class="title">
      <h1>{text}</h1>
      {children}
    </div>
  );
}

/** The text of a refusal or an error. */
export function Trouble({ problem }: { problem?: Problem }) {
  return <div aria-live="assertive">{problem && <p class="trouble">{problem.message}</p>}</div>;
}

/** A mark for each state, so that states differ not only in their colour. */
const MARKS: Record<string, string> = {
  queued: "…",
  running: "▶",
  paused: "⏸",
  waiting: "…",
  done: "✓",
  partial: "!",
  failed: "✗",
  interrupted: "!",
  cancelled: "–",
  standby: "…",
};

export function State({ state }: { state: string }) {
  return (
    <span class={`state ${state}`}>
      <span aria-hidden="true">{MARKS[state] ?? "?"} </span>
      {state}
    </span>
  );
}

/** A table that can be scrolled at small widths, also by keyboard, and saved as CSV. */
export function Table({ caption, head, children }: { caption: string; head: string[]; children: ComponentChildren }) {
  const table = useRef<HTMLTableElement>(null);
  const saveCsv = () => table.current && save(`${caption.toLowerCase().replace(/[^a-z0-9]+/g, "-")}.csv`, "text/csv", csv(rowsOf(table.current)));
  return (
    <>
      <div class="wide" tabIndex={0} role="region" aria-label={caption}>
        <table ref={table}>
          <caption>{caption}</caption>
          <thead>
            <tr>{head.map((text) => <th scope="col" key={text}>{text}</th>)}</tr>
          </thead>
          <tbody>{children}</tbody>
        </table>
      </div>
      <button type="button" class="link" aria-label={`${caption} as CSV`} onClick={saveCsv}>CSV</button>
    </>
  );
}
