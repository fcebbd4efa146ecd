import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

import { coast } from "./coast";

/** The directory of the built portal, from which crates/hub/build.rs includes the files in the program. */
const OUT = join(__dirname, "../../../target/portal");

/** The most bytes of all files of the portal together, compressed. */
const BYTES_MAX = 250_000;

/** Replaces the built files by compressed ones, as the hub sends them; fails if they have become too large. */
function compressed(): Plugin {
  return {
    name: "compressed",
    closeBundle() {
      let bytes = 0;
      for (const entry of readdirSync(OUT, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile()) continue;
        const file = join(entry.parentPath ?? entry.path, entry.name);
        const packed = gzipSync(readFileSync(file), { level: 9 });
        writeFileSync(`${file}.gz`, packed);
        rmSync(file);
        bytes += packed.length;
      }
      console.log(`the portal has ${bytes} of ${BYTES_MAX} bytes`);
      if (bytes > BYTES_MAX) throw new Error(`the portal has ${bytes} bytes, and ${BYTES_MAX} are permitted`);
    },
  };
}

export default defineConfig({
  build: { outDir: OUT, emptyOutDir: true, target: "es2022", modulePreload: { polyfill: false }, assetsInlineLimit: 0 },
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  plugins: [coast(), compressed()],
});
