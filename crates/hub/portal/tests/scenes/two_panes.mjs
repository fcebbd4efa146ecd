import assert from "node:assert/strict";

import { HUB, isAccessible, KEY, reader, signIn } from "../reader.mjs";

/** A user moves a file from one pane into the other one. */
export async function twoPanes() {
  const { context, page, requests, pageErrors } = await reader();
  await page.goto(`${HUB}/files`);
  await signIn(page, KEY);
  await page.getByRole("heading", { name: "Files" }).waitFor();
  const left = page.getByRole("region", { name: "Left folder" });
  const right = page.getByRole("region", { name: "Right folder" });
  await left.getByLabel("Endpoint").selectOption({ label: "one" });
  await left.getByRole("button", { name: "data/" }).click();
  await left.getByRole("button", { name: "run/" }).click();
  await left.getByText("[U+202E]").waitFor();
  await right.getByLabel("Endpoint").selectOption({ label: "two" });
  await right.getByRole("button", { name: "data/" }).click();
  await right.getByText("entries").waitFor();
  await isAccessible(page, "files");
  // With the keyboard: the file is found, marked and moved.
  await left.getByLabel("Find").fill("f3");
  await left.getByRole("checkbox", { name: "Mark f3" }).focus();
  await page.keyboard.press("Space");
  await left.getByText("1 marked, 100 kB in files").waitFor();
  await left.getByRole("button", { name: "Move 1 to the right" }).click();
  await page.getByRole("heading", { name: /^Transfer / }).waitFor();
  await page.locator("dd .state.done").waitFor();
  await page.goBack();
  await right.getByText("f3").waitFor();

  // A file comes directly from its node, with a link that the node signs.
  const opened = context.waitForEvent("page").catch(() => undefined);
  const answered = page.waitForResponse((response) => response.url().endsWith("/api/v1/downloads"));
  await left.getByRole("button", { name: "Download f3" }).click();
  const { url } = await (await answered).json();
  assert.notEqual(new URL(url).origin, new URL(HUB).origin);
  const fetched = await context.request.get(url);
  assert.deepEqual([fetched.status(), (await fetched.body()).length], [200, 100_000]);
  const other = await context.request.get(url.replace("/run/f3", "/run/f4"));
  assert.ok([401, 403].includes(other.status()), `the link is for one file: ${other.status()}`);
  const written = await context.request.put(url, { data: "x" });
  assert.ok([401, 403].includes(written.status()), `the link is for reading: ${written.status()}`);
  await (await opened)?.close();

  // A folder of many files has few rows in the page, and the last one can be reached.
  await left.getByRole("button", { name: "/ data" }).click();
  const begun = performance.now();
  await left.getByRole("button", { name: "many/" }).click();
  await left.getByText("100,000 of 100,000 entries").waitFor();
  const shown = performance.now() - begun;
  assert.ok((await left.locator("tbody tr").count()) < 100);
  const frames = await left.getByRole("region", { name: "What is in the left folder" }).evaluate(scrolledThrough);
  const longest = Math.max(...frames);
  console.log(`100,000 entries after ${Math.round(shown)} ms; ${frames.length} frames through all of them, the longest ${Math.round(longest)} ms`);
  await left.getByText("n99999").waitFor();

  // A refusal is shown in the words of the hub.
  await page.goto(`${HUB}/files?left=${encodeURIComponent("lh://nowhere.example/x/")}`);
  await left.getByText("no endpoint of the collaboration has URLs like").waitFor();
  const own = new URL(HUB).origin;
  assert.deepEqual(requests.filter((url) => new URL(url).origin !== own), []);
  assert.deepEqual(pageErrors, []);
  await context.close();
}

/** Scrolls through a box in 100 steps, one per frame; returns how long each frame took, in milliseconds. */
async function scrolledThrough(box) {
  const frames = [];
  let last = performance.now();
  for (let step = 1; step <= 100; step += 1) {
    box.scrollTo(0, (box.scrollHeight * step) / 100);
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - last);
    last = now;
  }
  return frames;
}
