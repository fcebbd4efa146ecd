import { useEffect, useState } from "preact/hooks";

import { post, Problem, type FolderEntry } from "../api";
import { Trouble } from "../parts";
import { bytes, name } from "../format";
import { fitsHeader, hdf5Header } from "../headers";

/** The bytes of a file that are read for a preview. */
const HEAD_BYTES = 64 * 1024;
const IMAGE_BYTES_MAX = 20_000_000;
const IMAGES = /\.(png|jpe?g|gif|webp|svg|avif)$/i;

interface Content {
  text?: string;
  image?: string;
}

/** The beginning of a file, directly from its node: text, an image, or the header of a FITS or HDF5 file. */
export function Preview({ at, entry, onClose }: { at: string; entry: FolderEntry; onClose: () => void }) {
  const [content, setContent] = useState<Content>();
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
    let image: string | undefined;
    load(at + entry.href, entry).then(
      (loaded) => {
        image = loaded.image;
        setContent(loaded);
      },
      (why: unknown) => setProblem(why instanceof Problem ? why : new Problem(0, `${new URL(at.replace(/^lh:/, "https:")).host} cannot be reached from this browser: ${String(why)}`)),
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
      {!content && !problem && <p>Loading…</p>}
      {content?.image && <img src={content.image} alt={name(entry.name)} />}
      {content?.text !== undefined && <pre tabIndex={0}>{shownText(content.text)}</pre>}
    </section>
  );
}

/** A text with its lines; other invisible characters are written as code points. */
const shownText = (text: string): string => text.split("\n").map((line) => name(line.replaceAll("\t", "    ").replace(/\r$/, ""))).join("\n");

async function load(url: string, entry: FolderEntry): Promise<Content> {
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
  // In text, few characters are invalid.
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
