import { name } from "../format";

/** An endpoint, and one of its URLs. */
export interface Place {
  endpoint: string;
  url: string;
}

/** The path of a folder; each part opens the folder there. */
export function Crumbs({ at, place, onOpen, label }: { at: string; place: Place; onOpen: (url: string) => void; label: string }) {
  const below = at.slice(place.url.length).split("/").filter((part) => part !== "");
  const shown = (part: string) => {
    try {
      return name(decodeURIComponent(part));
    } catch {
      return part;
    }
  };
  return (
    <nav aria-label={`Path of the ${label.toLowerCase()}`} class="crumbs">
      <button type="button" onClick={() => onOpen(place.url)}>{name(place.endpoint)}</button>
      {below.map((part, depth) => (
        <button type="button" key={depth} aria-current={depth === below.length - 1 ? "page" : undefined} onClick={() => onOpen(`${place.url}${below.slice(0, depth + 1).join("/")}/`)}>
          / {shown(part)}
        </button>
      ))}
    </nav>
  );
}
