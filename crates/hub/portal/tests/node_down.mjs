// Tests how the portal shows a node that does not answer. Environment variables: those of reader.mjs, and GONE (the URL of a folder at the node, which
// was ended).

import assert from "node:assert/strict";

import { browser, HUB, isAccessible, KEY, reader, signIn, SOURCE } from "./reader.mjs";

const { GONE } = process.env;

try {
  const { page, pageErrors } = await reader();
  await page.goto(`${HUB}/files?left=${encodeURIComponent(GONE)}`);
  await signIn(page, KEY);
  const host = new URL(GONE.replace(/^lh:/, "https:")).host;
  await page.locator(".trouble").filter({ hasText: host }).waitFor();
  await isAccessible(page, "a node that is down");

  // A transfer to it names the fault, and is retried.
  await page.goto(`${HUB}/transfers/new`);
  await page.getByRole("group", { name: "From" }).getByLabel("URL", { exact: true }).fill(`${SOURCE}/f0`);
  await page.getByRole("group", { name: "To" }).getByLabel("URL", { exact: true }).fill(`${GONE}f0`);
  await page.getByLabel("It is a folder").uncheck();
  await page.getByRole("button", { name: "Move" }).click();
  await page.getByRole("heading", { name: /^Transfer / }).waitFor();
  await page.locator("tbody tr").filter({ hasText: /(path|peer|network): .*/ }).waitFor();
  await isAccessible(page, "a transfer that does not get there");
  assert.deepEqual(pageErrors, []);
} finally {
  await browser.close();
}
