import { useEffect, useState } from "preact/hooks";

import { post, Problem, type FolderEntry } from "../api";
import { Trouble } from "../parts";
import { bytes, name } from "../shown";
import { fitsHeader, hdf5Header } from "../headers";

/** So much of a file is looked at. */
const HEAD_BYTES = 64 * 1024;
const IMAGE_BYTES_MAX = 20_000_000;
const IMAGES = /\.(png|jpe?g|gif|webp|svg|avif)$/i;

interface Seen {
  text?: string;
  image?: string;
}

/** The beginning of a file, straight from its node: text, an image, or the header of FITS and HDF5. */
export function Preview({ at, entry, onClose }: { at: string; entry: FolderEntry; onClose: () => void }) {
  const [seen, setSeen] = useState<Seen>();
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
    let image: string | undefined;
    look(at + entry.href, entry).then(
      (what) => {
        image = what.image;
        setSeen(what);
      },
      (why: unknown) => setProblem(why instanceof Problem ? why : new Problem(0, `${new URL(at.replace(/^lh:/, "https:")).host} cannot be asked from this browser: ${String(why)}`)),
    );
    return () => {
      if (image) URL.revokeObjectURL(image);
    };
  }, [at, entry]);
  return (
    <section aria-label={`Preview of ${name(entry.name)}`} class="holding">
      <div class="title">
        <h2>{name(entry.name)}, {bytes(entry.bytes)}</h2>
        <button type="button" onClick={onClose}>Close the preview</button>
      </div>
      <Trouble problem={problem} />
      {!seen && !problem && <p>Looking…</p>}
      {seen?.image && <img src={seen.image} alt={name(entry.name)} />}
      {seen?.text !== undefined && <pre tabIndex={0}>{shownText(seen.text)}</pre>}
    </section>
  );
}

/** Lines stay lines; all else that cannot be seen is told. */
const shownText = (text: string): string => text.split("\n").map((line) => name(line.replaceAll("\t", "    ").replace(/\r$/, ""))).join("\n");

async function look(url: string, entry: FolderEntry): Promise<Seen> {
  const link = (await post<{ url: string }>("/api/v1/downloads", { at: url })).url;
  if (IMAGES.test(entry.name) && entry.bytes <= IMAGE_BYTES_MAX) {
    const whole = await fetch(link);
    if (!whole.ok) throw new Problem(whole.status, `The node answered ${whole.status}.`);
    return { image: URL.createObjectURL(await whole.blob()) };
  }
  if (entry.bytes === 0) return { text: "(the file is empty)" };
  const answer = await fetch(link, { headers: { Range: `bytes=0-${HEAD_BYTES - 1}` } });
  if (!answer.ok) throw new Problem(answer.status, `The node answered ${answer.status}.`);
  const head = new Uint8Array(await answer.arrayBuffer()).subarray(0, HEAD_BYTES);
  const known = fitsHeader(head) ?? hdf5Header(head);
  if (known !== undefined) return { text: known };
  const text = new TextDecoder().decode(head);
  // Text has few characters that are none.
  const strange = [...text].filter((character) => character === "\ufffd" || (character < " " && !"\n\r\t".includes(character))).length;
  if (strange > text.length / 20) return { text: hex(head.subarray(0, 512)) };
  return { text: entry.bytes > HEAD_BYTES ? `${text}\n…` : text };
}

function hex(head: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < head.length; at += 16) {
    const row = [...head.subarray(at, at + 16)];
    const codes = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${codes.padEnd(47)}  ${row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("")}`);
  }
  return lines.join("\n");
}
