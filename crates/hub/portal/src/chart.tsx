/** Charts of time series. The values are also in the caption and in a CSV file, for readers who cannot see the chart. */

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { csv, save } from "./csv";

export interface Series {
  label: string;
  values: (number | null)[];
}

/** Lines differ by their dashes as well as by their colour. */
const DASHES: number[][] = [[], [8, 4], [2, 3], [8, 3, 2, 3]];
const INKS = ["--link", "--bad", "--good", "--ink"];
const HEIGHT_PX = 220;

/** Lines over times in seconds since 1970; `shown` makes a text of a value with its unit. */
export function Chart({ caption, times, series, shown }: { caption: string; times: number[]; series: Series[]; shown: (value: number) => string }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>();
  const data = [times, ...series.map(({ values }) => values)] as uPlot.AlignedData;
  const words = series.map(({ label }) => label).join("\n");
  useEffect(() => {
    const element = box.current!;
    // A canvas cannot use CSS variables: the colour, which differs in light and dark mode, is computed with the element.
    const ink = (word: string) => {
      element.style.color = `var(${word})`;
      const colour = getComputedStyle(element).color;
      element.style.color = "";
      return colour;
    };
    const axis = { stroke: ink("--ink"), grid: { stroke: ink("--soft") }, ticks: { stroke: ink("--line") } };
    const options: uPlot.Options = {
      width: element.clientWidth,
      height: HEIGHT_PX,
      scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), high ? high * 1.05 : 1] } },
      series: [{}, ...words.split("\n").map((label, at) => ({
        label,
        stroke: ink(INKS[at % INKS.length]!),
        width: 1.5,
        dash: DASHES[at % DASHES.length],
        value: (_: uPlot, value: number | null) => (value === null ? "–" : shown(value)),
      }))],
      axes: [axis, { ...axis, size: 90, values: (_, ticks) => ticks.map(shown) }],
    };
    plot.current = new uPlot(options, data, element);
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      plot.current?.destroy();
    };
  }, [words]);
  useEffect(() => plot.current?.setData(data), [times, series]);
  const rows = () => [["time", ...series.map(({ label }) => label)], ...times.map((time, at) => [new Date(time * 1000).toISOString(), ...series.map(({ values }) => String(values[at] ?? ""))])];
  const file = `${caption.toLowerCase().replace(/[^a-z0-9]+/g, "-")}.csv`;
  return (
    <figure>
      <figcaption>{caption}. {series.map((one) => lastOf(one, shown)).join("; ")}</figcaption>
      <div ref={box} class="chart" aria-hidden="true" />
      <button type="button" class="link" aria-label={`${caption} as CSV`} onClick={() => save(file, "text/csv", csv(rows()))}>CSV</button>
    </figure>
  );
}

/** The last and the highest value of a line, as text. */
function lastOf({ label, values }: Series, shown: (value: number) => string): string {
  const known = values.filter((value): value is number => value !== null);
  if (known.length === 0) return `${label}: no values`;
  return `${label}: ${shown(known.at(-1)!)} at the end, ${shown(known.reduce((a, b) => Math.max(a, b)))} at most`;
}
