import assert from "node:assert/strict";

import { HUB, isAccessible, KEY, reader, signIn } from "../reader.mjs";

/** An operator drains an endpoint, sets a mark, and looks at the queue. */
export async function operation() {
  const { context, page, pageErrors } = await reader();
  await page.goto(`${HUB}/operate`);
  await signIn(page, KEY);
  await page.getByRole("heading", { name: "Operation" }).waitFor();
  await page.getByLabel("Reason, shown to all members").fill("<img src=x onerror=window.broken=1>\u202e new disks");
  await page.getByRole("button", { name: "Drain endpoint one" }).click();
  await page.getByText("[U+202E] new disks").waitFor();
  assert.equal(await page.evaluate(() => window.broken), undefined, "what users write is shown as text");
  await isAccessible(page, "operation");
  await page.getByRole("button", { name: "Start endpoint one" }).click();
  await page.getByRole("button", { name: "Drain endpoint one" }).waitFor();
  // Half of a link may be used from now on, and the audit trail names who changed it.
  await page.getByLabel("Percent of wan").fill("50");
  await page.getByRole("button", { name: "Set the mark" }).click();
  await page.getByText("50 %, 500 Mbit/s").waitFor();
  await page.getByRole("link", { name: "Audit trail" }).click();
  await page.getByRole("row", { name: /ann.*set_mark.*marks\/wan/ }).waitFor();
  await isAccessible(page, "audit trail");
  for (const [tab, heading] of [["Map", "Map"], ["Storage", "Storage and quotas"], ["Reservations", "Reservations"]]) {
    await page.getByRole("link", { name: tab, exact: true }).click();
    await page.getByRole("heading", { name: heading }).waitFor();
    await isAccessible(page, heading);
  }
  // A table can be saved for a spreadsheet.
  const saved = page.waitForEvent("download");
  await page.getByRole("link", { name: "Storage", exact: true }).click();
  await page.getByRole("button", { name: "Storage as CSV" }).click();
  assert.equal((await saved).suggestedFilename(), "storage.csv");
  await page.getByRole("link", { name: "Queue", exact: true }).click();
  await page.getByRole("heading", { name: "Queue and shares" }).waitFor();
  await page.getByText("Nothing waits and nothing moves").waitFor();
  await isAccessible(page, "queue");
  await page.goto(`${HUB}/no/such/page`);
  await page.getByRole("heading", { name: "There is no such page" }).waitFor();
  assert.deepEqual(pageErrors, []);
  await context.close();
}
