// People's ways through the portal, in a real browser: started by the end-to-end tests of the program with a hub and two nodes.
//
// The environment says where: HUB (its URL), KEY (an operator's), SOURCE and TARGET (URLs of a folder, and of where it is to be), LARGE (a file of
// more than one part), CHROMIUM; and SCENES picks some of them by their names.

import { browser } from "./reader.mjs";
import { dataSets } from "./scenes/data_sets.mjs";
import { errors } from "./scenes/errors.mjs";
import { filesChanged } from "./scenes/files_changed.mjs";
import { firstTransfer } from "./scenes/first_transfer.mjs";
import { operation } from "./scenes/operation.mjs";
import { sharing } from "./scenes/sharing.mjs";
import { strangers } from "./scenes/strangers.mjs";
import { twoPanes } from "./scenes/two_panes.mjs";

const SCENES = { firstTransfer, twoPanes, filesChanged, sharing, dataSets, operation, errors, strangers };

try {
  const wanted = process.env.SCENES?.split(",") ?? Object.keys(SCENES);
  for (const [name, scene] of Object.entries(SCENES).filter(([name]) => wanted.includes(name))) {
    const begun = performance.now();
    await scene();
    console.log(`${name} took ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  }
} finally {
  await browser.close();
}
