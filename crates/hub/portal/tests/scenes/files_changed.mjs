import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { HUB, isAccessible, KEY, reader, signIn } from "../reader.mjs";

const { LARGE } = process.env;

/** A user makes a folder, uploads files with an interruption, renames one, deletes it, takes it back, and looks at files. */
export async function filesChanged() {
  const { context, page, pageErrors } = await reader();
  const throughHub = [];
  page.on("requestfinished", async (request) => {
    if (!request.url().startsWith(`${HUB}/api/`)) return;
    const { requestBodySize, responseBodySize } = await request.sizes();
    throughHub.push(requestBodySize + responseBodySize);
  });
  await page.goto(`${HUB}/files`);
  await signIn(page, KEY);
  const left = page.getByRole("region", { name: "Left folder" });
  await left.getByLabel("Endpoint").selectOption({ label: "one" });
  await left.getByRole("button", { name: "data/" }).click();
  await left.getByLabel("New name").fill("new <b>folder");
  await left.getByRole("button", { name: "Make folder" }).click();
  await left.getByRole("button", { name: "new <b>folder/" }).click();
  await left.getByText("0 of 0 entries").waitFor();

  // A small file, and a file of several parts whose second part is interrupted: the upload is resumed there.
  const small = join(dirname(LARGE), "small.txt");
  writeFileSync(small, "few words");
  let broken = 0;
  await page.route(/[?&]upload=/, (route) => {
    const isSecond = route.request().method() === "PATCH" && route.request().headers()["upload-offset"] !== "0";
    if (isSecond && broken === 0) {
      broken += 1;
      return route.abort("connectionreset");
    }
    return route.continue();
  });
  await left.getByLabel("Files to upload").setInputFiles([LARGE, small]);
  await left.getByText("all files have arrived").waitFor({ timeout: 120_000 });
  assert.equal(broken, 1, "a part was interrupted");
  await isAccessible(page, "an upload");
  await left.getByRole("button", { name: "Close" }).click();
  await left.getByText("2 of 2 entries").waitFor();

  // The beginning of a file, directly from the node.
  await left.getByRole("button", { name: "Look at small.txt" }).click();
  await left.getByText("few words").waitFor();
  await isAccessible(page, "a preview");
  await left.getByRole("button", { name: "Close the preview" }).click();

  // Renamed, deleted, taken back.
  await left.getByRole("checkbox", { name: "Mark small.txt" }).check();
  await left.getByLabel("New name").fill("renamed.txt");
  await left.getByRole("button", { name: "Rename" }).click();
  await left.getByRole("checkbox", { name: "Mark renamed.txt" }).check();
  await left.getByRole("button", { name: "Delete 1" }).click();
  await left.getByText("1 of 1 entries").waitFor();
  await isAccessible(page, "something deleted");
  await page.getByRole("button", { name: /^Restore .*renamed.txt/ }).click();
  await left.getByRole("button", { name: "Look at renamed.txt" }).waitFor();

  // Headers of scientific files.
  await left.getByRole("button", { name: "/ data" }).click();
  await left.getByRole("button", { name: "science/" }).click();
  await left.getByRole("button", { name: "Look at image.fits" }).click();
  await left.getByText("TELESCOP= 'TEST").waitFor();
  await left.getByRole("button", { name: "Look at cube.h5" }).click();
  await left.getByText("superblock version 0").waitFor();
  await left.getByText("the file ends at byte 2048").waitFor();

  const bytes = throughHub.reduce((sum, size) => sum + size, 0);
  assert.ok(bytes > 0 && bytes < 1_000_000, `${bytes} bytes went through the hub, of 70 MB that were uploaded`);
  assert.deepEqual(pageErrors, []);
  await context.close();
}
