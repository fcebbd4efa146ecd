import { get, type Collaboration } from "../api";
import { useLive } from "../live";
import { Title, Trouble } from "../parts";
import { go, parts } from "../router";
import { Deletions } from "./deletions";
import { Pane, type Place, type Side } from "./pane";

/** Two folders of any endpoints; marked entries of one can be moved into the other. The address contains both. */
export function Files() {
  const { query } = parts();
  const described = useLive(() => get<Collaboration>("/api/v1/collaboration"), 60, "collaboration");
  const places: Place[] = Object.entries(described.value?.endpoint ?? {}).flatMap(([endpoint, described]) =>
    (described.urls ?? []).filter((url) => !url.startsWith("s3:")).map((url) => ({ endpoint, url: url.replace(/\/*$/, "/") })),
  );
  const at = (side: Side) => query.get(side) ?? "";
  const openFolder = (side: Side, url: string) => {
    const to = new URLSearchParams(query);
    to.set(side, url);
    go(`/files?${to}`);
  };
  return (
    <>
      <Title text="Files" />
      <Trouble problem={described.problem} />
      <div class="panes">
        <Pane side="left" at={at("left")} other={at("right")} places={places} openFolder={openFolder} />
        <Pane side="right" at={at("right")} other={at("left")} places={places} openFolder={openFolder} />
      </div>
      <Deletions />
    </>
  );
}
