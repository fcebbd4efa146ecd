import { useState } from "preact/hooks";

import { post } from "../api";
import { useAction } from "../live";
import { Trouble } from "../parts";
import { name, time } from "../format";

export interface ShareLink {
  id: string;
  page?: string;
  owner: string;
  at: string;
  kind: "read" | "drop";
  has_password: boolean;
  created: string;
  expires: string;
  opened: number;
}

const DAY_S = 86_400;

/** Makes a link to a file or folder for people without an account. */
export function ShareForm({ at, onClose }: { at: string; onClose: () => void }) {
  const { problem, act } = useAction();
  const [kind, setKind] = useState("read");
  const [days, setDays] = useState("7");
  const [password, setPassword] = useState("");
  const [link, setLink] = useState<ShareLink>();
  const make = (event: SubmitEvent) => {
    event.preventDefault();
    const order = { at, kind, lasts_s: Math.round(Number(days) * DAY_S), ...(password !== "" && { password }) };
    void act(async () => setLink(await post<ShareLink>("/api/v1/share-links", order)));
  };
  const address = link?.page && new URL(link.page, location.origin).href;
  return (
    <section aria-label="Share" class="holding">
      <div class="title"><h2>Share {name(at)}</h2><button type="button" onClick={onClose}>Close</button></div>
      {!link && (
        <form class="bar" onSubmit={make}>
          <label>
            A person with the link{" "}
            <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
              <option value="read">can read it</option>
              {at.endsWith("/") && <option value="drop">can add new files, and sees nothing</option>}
            </select>
          </label>
          <label>for <input type="number" min="1" max="366" value={days} onInput={(event) => setDays(event.currentTarget.value)} /> days</label>
          <label>Password (optional) <input type="password" autocomplete="new-password" minLength={8} value={password} onInput={(event) => setPassword(event.currentTarget.value)} /></label>
          <button type="submit">Make the link</button>
        </form>
      )}
      <Trouble problem={problem} />
      {link && address && (
        <>
          <p>Copy the link now: it is not shown again. It expires on {time(link.expires)}. You can end it earlier on the page Shared.</p>
          <div class="bar">
            <label>Link <input readOnly value={address} size={60} onFocus={(event) => event.currentTarget.select()} /></label>
            <button type="button" onClick={() => navigator.clipboard?.writeText(address)}>Copy</button>
          </div>
        </>
      )}
    </section>
  );
}
