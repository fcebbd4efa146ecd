import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** The height of a row, in CSS pixels. All rows have the same height, so that only the visible ones of 100,000 need to be in the page. */
const ROW_PX = 36;
/** The number of rows that are drawn above and below the visible ones. */
const MARGIN = 10;

/** A table of many rows, of which only the visible ones are drawn. */
export function Rows({ label, head, count, row }: { label: string; head: string[]; count: number; row: (index: number) => ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const [visible, setVisible] = useState({ top: 0, height: 600 });
  const measure = () => {
    if (box.current) setVisible({ top: box.current.scrollTop, height: box.current.clientHeight });
  };
  useLayoutEffect(measure, [count]);
  const first = Math.max(0, Math.floor(visible.top / ROW_PX) - MARGIN);
  const last = Math.min(count, Math.ceil((visible.top + visible.height) / ROW_PX) + MARGIN);
  const gap = (rows: number) => rows > 0 && <tr aria-hidden="true"><td colSpan={head.length} ref={(cell) => { if (cell) cell.style.height = `${rows * ROW_PX}px`; }} /></tr>;
  return (
    <div class="rows" ref={box} onScroll={measure} tabIndex={0} role="region" aria-label={label}>
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
