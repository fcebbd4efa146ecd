import coast from "virtual:coast";

import { get, type Collaboration, type QueueLine } from "../api";
import { useLive } from "../live";
import { Table, Title, Trouble } from "../parts";
import { count, name, rate } from "../format";
import { Health, pathPage } from "./alarms";

/** A point of the map, in tenths of a degree from the date line and the north pole. */
interface Point {
  x: number;
  y: number;
}

interface Place {
  name: string;
  site: string;
  latitude?: number | null;
  longitude?: number | null;
}

interface WatchMap {
  places: Place[];
  paths: { from: string; to: string; forward: string; reverse: string }[];
}

/** The number of segments of a great circle. */
const STEPS = 32;

const point = (latitude: number, longitude: number): Point => ({ x: (longitude + 180) * 10, y: (90 - latitude) * 10 });

/** The great circle between two points as an SVG path; at the date line it continues at the other edge. */
export function greatCircle(from: Point, to: Point): string {
  const vector = ({ x, y }: Point) => {
    const [longitude, latitude] = [((x / 10 - 180) * Math.PI) / 180, ((90 - y / 10) * Math.PI) / 180];
    return [Math.cos(latitude) * Math.cos(longitude), Math.cos(latitude) * Math.sin(longitude), Math.sin(latitude)] as const;
  };
  const [a, b] = [vector(from), vector(to)];
  const angle = Math.acos(Math.min(1, Math.max(-1, a[0] * b[0] + a[1] * b[1] + a[2] * b[2])));
  if (angle === 0) return "";
  let before: Point | undefined;
  let path = "";
  for (let step = 0; step <= STEPS; step += 1) {
    const part = step / STEPS;
    const [f, g] = [Math.sin((1 - part) * angle) / Math.sin(angle), Math.sin(part * angle) / Math.sin(angle)];
    const [x, y, z] = [f * a[0] + g * b[0], f * a[1] + g * b[1], f * a[2] + g * b[2]];
    const at = point((Math.asin(z) * 180) / Math.PI, (Math.atan2(y, x) * 180) / Math.PI);
    const isCrossing = before !== undefined && Math.abs(before.x - at.x) > 1800;
    path += `${before === undefined || isCrossing ? "M" : "L"}${at.x.toFixed(0)} ${at.y.toFixed(0)}`;
    before = at;
  }
  return path;
}

interface Flow {
  from: string;
  to: string;
  used_bit_s: number;
  running: number;
}

/** The flows between sites: the sums of what the queues use. */
function flows(queues: QueueLine[], siteOf: (endpoint: string) => string): Flow[] {
  const all = new Map<string, Flow>();
  for (const queue of queues) {
    const [from, to] = [siteOf(queue.source), siteOf(queue.target)];
    const flow = all.get(`${from}\n${to}`) ?? { from, to, used_bit_s: 0, running: 0 };
    flow.used_bit_s += queue.used_bit_s;
    flow.running += queue.running;
    all.set(`${from}\n${to}`, flow);
  }
  return [...all.values()].sort((one, other) => other.used_bit_s - one.used_bit_s);
}

/** A map of the sites, the health of the paths between them, and the current flows. */
export function WorldMap() {
  const described = useLive(() => get<Collaboration>("/api/v1/collaboration"), 30, "collaboration");
  const queues = useLive(() => get<{ queues: QueueLine[] }>("/api/v1/queues"), 2, "queues");
  const watch = useLive(() => get<WatchMap>("/api/v1/watch/map"), 10, "map");
  const points = new Map<string, Point>();
  for (const place of watch.value?.places ?? []) {
    if (typeof place.latitude === "number" && typeof place.longitude === "number") points.set(place.site || place.name, point(place.latitude, place.longitude));
  }
  for (const [site, { location }] of Object.entries(described.value?.site ?? {})) {
    if (location) points.set(site, point(location[0], location[1]));
  }
  const siteOf = (endpoint: string) => described.value?.endpoint[endpoint]?.site || endpoint;
  const placeSite = new Map((watch.value?.places ?? []).map((place) => [place.name, place.site || place.name]));
  const moving = flows(queues.value?.queues ?? [], siteOf);
  const most = Math.max(1, ...moving.map((flow) => flow.used_bit_s));
  const line = (from: string, to: string) => {
    const [a, b] = [points.get(from), points.get(to)];
    return a && b ? greatCircle(a, b) : "";
  };
  return (
    <>
      <Title text="Map" />
      <Trouble problem={described.problem ?? queues.problem} />
      {points.size === 0 && <p>No site has a location. Set one with <code>longhaul hub site set NAME --location LATITUDE,LONGITUDE</code>.</p>}
      <svg class="map" viewBox="0 0 3600 1800" role="img" aria-label={`${count(points.size)} sites, and the flows between them; the tables below have the same data`}>
        <path class="coast" d={coast} />
        {(watch.value?.paths ?? []).map((path) => (
          <path key={`${path.from} ${path.to}`} class={`line ${path.forward}`} d={line(placeSite.get(path.from) ?? path.from, placeSite.get(path.to) ?? path.to)} />
        ))}
        {moving.filter((flow) => flow.used_bit_s > 0).map((flow) => (
          <path key={`${flow.from} ${flow.to} flow`} class="flow" stroke-width={4 + (16 * flow.used_bit_s) / most} d={line(flow.from, flow.to)}>
            <title>{`${name(flow.from)} to ${name(flow.to)}: ${rate(flow.used_bit_s)}`}</title>
          </path>
        ))}
        {[...points].map(([site, at]) => (
          <g key={site}>
            <circle class="site" cx={at.x} cy={at.y} r={14} />
            <text class="label" x={at.x + 22} y={at.y + 12}>{name(site)}</text>
          </g>
        ))}
      </svg>
      <Table caption="Current flows" head={["From", "To", "Rate", "Files being moved"]}>
        {moving.map((flow) => (
          <tr key={`${flow.from} ${flow.to}`}>
            <th scope="row">{name(flow.from)}</th>
            <td>{name(flow.to)}</td>
            <td>{rate(flow.used_bit_s)}</td>
            <td>{count(flow.running)}</td>
          </tr>
        ))}
      </Table>
      {watch.value && (
        <Table caption="Paths" head={["Path", "Forward", "Reverse"]}>
          {watch.value.paths.map((path) => (
            <tr key={`${path.from} ${path.to}`}>
              <th scope="row"><a href={pathPage(path.from, path.to)}>{name(path.from)} to {name(path.to)}</a></th>
              <td><Health health={path.forward} /></td>
              <td><Health health={path.reverse} /></td>
            </tr>
          ))}
        </Table>
      )}
      <p class="bar"><a href="/api/v1/queues" download="queues.json">Queues as JSON</a> {watch.value && <a href="/api/v1/watch/map" download="map.json">Places and paths as JSON</a>}</p>
    </>
  );
}
