/** The headers of scientific files, as text. */

/** The bytes of a card, which is a line of a FITS header (FITS standard 4.0, section 3.3). */
const CARD = 80;

/** The cards of the first header of a FITS file; undefined if it is not a FITS file. */
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
/** The positions at which a superblock may begin: 0, 512, and each double of that (HDF5 file format 3.0, section II.A). */
const SUPERBLOCKS = [0, 512, 1024, 2048, 4096, 8192, 16384, 32768];

/** The superblock of an HDF5 file, and the names in its first bytes; undefined if it is not an HDF5 file. */
export function hdf5Header(head: Uint8Array): string | undefined {
  const at = SUPERBLOCKS.find((start) => HDF5_SIGNATURE.every((byte, offset) => head[start + offset] === byte));
  if (at === undefined) return undefined;
  const version = head[at + 8]!;
  // Versions 0 and 1 have the sizes at byte 13, later ones at byte 9.
  const sizes = version < 2 ? at + 13 : at + 9;
  const endAt = version < 2 ? at + (version === 0 ? 24 : 28) + 2 * head[sizes]! : at + 12 + 2 * head[sizes]!;
  const bytes = littleEndian(head, endAt, head[sizes]!);
  const lines = ["HDF5", `superblock version ${version}${at > 0 ? `, after ${at} bytes of other data` : ""}`, `offsets of ${head[sizes]} bytes, lengths of ${head[sizes + 1]} bytes`, `the file ends at byte ${bytes}`];
  const names = namesIn(head);
  return [...lines, "", names.length > 0 ? `names in the first ${head.length} bytes:` : "no names in its first bytes", ...names].join("\n");
}

function littleEndian(head: Uint8Array, at: number, size: number): bigint {
  let value = 0n;
  for (let offset = size - 1; offset >= 0; offset -= 1) value = value * 256n + BigInt(head[at + offset] ?? 0);
  return value;
}

/** Texts of at least four characters that end with a zero byte: names of groups, data sets and attributes. Fixed words of the format are left out. */
function namesIn(head: Uint8Array): string[] {
  const FIXED = /^(HEAP|SNOD|TREE|OHDR|OCHK|FRHP|FHDB|BTHD|BTLF|GCOL|HDF)$/;
  const found = new TextDecoder("latin1").decode(head).match(/[A-Za-z_][\w .:/-]{2,63}(?=\0)/g) ?? [];
  return [...new Set(found)].filter((text) => !FIXED.test(text)).slice(0, 200);
}
