/** Coast lines for the map: Natural Earth's 1:110 million land (public domain), from an npm package, as one SVG path made when the portal is built. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Plugin } from "vite";

/** The parts of TopoJSON that are read: lines as differences of whole numbers, and how those become degrees. */
interface Topology {
  transform: { scale: [number, number]; translate: [number, number] };
  arcs: [number, number][][];
}

/** Lines shorter than this, in tenths of a degree, are islets that are too small for a map of the world. */
const LENGTH_MIN = 15;
/** Half the width of the map, in tenths of a degree: a longer step of a line is a jump to the other edge of the map. */
const HALF_WIDTH = 1800;

/** The lines as differences of tenths of a degree, x from the date line, y from the north pole down. */
function path({ transform, arcs }: Topology): string {
  const { scale, translate } = transform;
  const lines = arcs.map((arc) => {
    let [x, y] = [0, 0];
    const points = arc.map(([dx, dy]) => {
      x += dx;
      y += dy;
      return [Math.round((x * scale[0] + translate[0] + 180) * 10), Math.round((90 - (y * scale[1] + translate[1])) * 10)] as const;
    });
    return svgPath(points);
  });
  return lines.join("").replaceAll(" -", "-");
}

/** A line as an SVG path. At the date line, where the line jumps to the other edge of the map, a new line begins. */
function svgPath(points: (readonly [number, number])[]): string {
  const moves = points.slice(1).map(([px, py], at) => [px - points[at]![0], py - points[at]![1]] as const);
  const length = moves.reduce((sum, [dx, dy]) => sum + Math.abs(dx) + Math.abs(dy), 0);
  if (length < LENGTH_MIN) return "";
  let path = `M${points[0]!.join(" ")}l`;
  moves.forEach(([dx, dy], at) => {
    if (Math.abs(dx) > HALF_WIDTH) path += `M${points[at + 1]!.join(" ")}l`;
    else if (dx !== 0 || dy !== 0) path += `${dx} ${dy} `;
  });
  // Removes lines without a step.
  return path.replace(/M[^Ml]*l(?=M|$)/g, "").trimEnd();
}

/** Provides the path as the module `virtual:coast`. */
export function coast(): Plugin {
  const id = "virtual:coast";
  return {
    name: "coast",
    resolveId: (source) => (source === id ? `\0${id}` : undefined),
    load: (source) => {
      if (source !== `\0${id}`) return undefined;
      const file = createRequire(import.meta.url).resolve("world-atlas/land-110m.json");
      return `export default ${JSON.stringify(path(JSON.parse(readFileSync(file, "utf8"))))}`;
    },
  };
}
