/** Headers of scientific files, as far as a page tells of them. */

/** Bytes of a line of a FITS header, and of a block (FITS standard 4.0, section 3.3). */
const CARD = 80;

/** The cards of a FITS file's first header; nothing where it is none. */
export function fitsHeader(head: Uint8Array): string | undefined {
  const text = new TextDecoder("ascii").decode(head);
  if (!text.startsWith("SIMPLE  =")) return undefined;
  const cards: string[] = [];
  for (let at = 0; at + CARD <= text.length; at += CARD) {
    const card = text.slice(at, at + CARD).trimEnd();
    cards.push(card);
    if (card === "END") return cards.join("\n");
  }
  return `${cards.join("\n")}\n…`;
}

const HDF5_SIGNATURE = [0x89, 0x48, 0x44, 0x46, 0x0d, 0x0a, 0x1a, 0x0a];
/** Where a superblock may begin: at 0, 512, and twice that again and again (HDF5 file format 3.0, section II.A). */
const SUPERBLOCKS = [0, 512, 1024, 2048, 4096, 8192, 16384, 32768];

/** What the superblock of an HDF5 file says, and the names that stand in its first bytes; nothing where it is none. */
export function hdf5Header(head: Uint8Array): string | undefined {
  const at = SUPERBLOCKS.find((start) => HDF5_SIGNATURE.every((byte, offset) => head[start + offset] === byte));
  if (at === undefined) return undefined;
  const version = head[at + 8]!;
  // Versions 0 and 1 say the sizes at byte 13, later ones at byte 9.
  const sizes = version < 2 ? at + 13 : at + 9;
  const endAt = version < 2 ? at + (version === 0 ? 24 : 28) + 2 * head[sizes]! : at + 12 + 2 * head[sizes]!;
  const bytes = littleEndian(head, endAt, head[sizes]!);
  const lines = ["HDF5", `superblock version ${version}${at > 0 ? `, behind ${at} bytes of something else` : ""}`, `offsets of ${head[sizes]} bytes, lengths of ${head[sizes + 1]} bytes`, `the file ends at byte ${bytes}`];
  const names = namesIn(head);
  return [...lines, "", names.length > 0 ? `names in the first ${head.length} bytes:` : "no names in its first bytes", ...names].join("\n");
}

function littleEndian(head: Uint8Array, at: number, size: number): bigint {
  let value = 0n;
  for (let offset = size - 1; offset >= 0; offset -= 1) value = value * 256n + BigInt(head[at + offset] ?? 0);
  return value;
}

/** Texts of four characters and more that end with a zero: names of groups, data sets and attributes, and fixed words of the format. */
function namesIn(head: Uint8Array): string[] {
  const FIXED = /^(HEAP|SNOD|TREE|OHDR|OCHK|FRHP|FHDB|BTHD|BTLF|GCOL|HDF)$/;
  const found = new TextDecoder("latin1").decode(head).match(/[A-Za-z_][\w .:/-]{2,63}(?=\0)/g) ?? [];
  return [...new Set(found)].filter((text) => !FIXED.test(text)).slice(0, 200);
}
