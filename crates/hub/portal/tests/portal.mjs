// Tests of the portal in a real browser, as its users work with it. The end-to-end tests of the program start it, with a hub and two nodes.
//
// Environment variables: HUB (its URL), KEY (of an operator), SOURCE and TARGET (the URLs of a folder and of its target), LARGE (a file of more than one
// part), CHROMIUM; SCENES selects some of the scenes by name.

import { browser } from "./reader.mjs";
import { datasets } from "./scenes/datasets.mjs";
import { errors } from "./scenes/errors.mjs";
import { exercises } from "./scenes/exercises.mjs";
import { filesChanged } from "./scenes/files_changed.mjs";
import { firstTransfer } from "./scenes/first_transfer.mjs";
import { operation } from "./scenes/operation.mjs";
import { planning } from "./scenes/planning.mjs";
import { sharing } from "./scenes/sharing.mjs";
import { strangers } from "./scenes/strangers.mjs";
import { twoPanes } from "./scenes/two_panes.mjs";

const SCENES = { firstTransfer, twoPanes, filesChanged, sharing, datasets, operation, planning, exercises, errors, strangers };
/** The longest that a scene takes beside other tests on a slow machine. */
const SCENE_SECONDS = 450;

try {
  const wanted = process.env.SCENES?.split(",") ?? Object.keys(SCENES);
  for (const [name, scene] of Object.entries(SCENES).filter(([name]) => wanted.includes(name))) {
    const begun = performance.now();
    await ended(name, scene());
    console.log(`${name} took ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  }
} finally {
  await browser.close();
}

/** Waits for a scene. One that hangs ends the whole run: its browser may hang as well. */
async function ended(name, scene) {
  const limit = setTimeout(() => {
    console.error(`${name} has not ended after ${SCENE_SECONDS} s`);
    process.exit(1);
  }, SCENE_SECONDS * 1000);
  await scene.finally(() => clearTimeout(limit));
}
