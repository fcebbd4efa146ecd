import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** The height of a row, in CSS pixels: all have the same, so that of 100,000 only those are in the page that are seen. */
const ROW_PX = 36;
/** Rows above and below what is seen. */
const BESIDE = 10;

/** A table of many rows, of which those are drawn that are seen. */
export function Rows({ label, head, count, row }: { label: string; head: string[]; count: number; row: (index: number) => ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState({ top: 0, height: 600 });
  const look = () => {
    if (box.current) setSeen({ top: box.current.scrollTop, height: box.current.clientHeight });
  };
  useLayoutEffect(look, [count]);
  const first = Math.max(0, Math.floor(seen.top / ROW_PX) - BESIDE);
  const last = Math.min(count, Math.ceil((seen.top + seen.height) / ROW_PX) + BESIDE);
  const gap = (rows: number) => rows > 0 && <tr aria-hidden="true"><td colSpan={head.length} ref={(cell) => { if (cell) cell.style.height = `${rows * ROW_PX}px`; }} /></tr>;
  return (
    <div class="rows" ref={box} onScroll={look} tabIndex={0} role="region" aria-label={label}>
      <table aria-rowcount={count + 1}>
        <thead>
          <tr aria-rowindex={1}>{head.map((text) => <th scope="col" key={text}>{text}</th>)}</tr>
        </thead>
        <tbody>
          {gap(first)}
          {Array.from({ length: Math.max(0, last - first) }, (_, at) => <tr key={first + at} aria-rowindex={first + at + 2}>{row(first + at)}</tr>)}
          {gap(count - last)}
        </tbody>
      </table>
    </div>
  );
}
