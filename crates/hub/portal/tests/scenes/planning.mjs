import assert from "node:assert/strict";

import { HUB, isAccessible, KEY, reader, signIn } from "../reader.mjs";

/** A what-if question is answered beside today; a site answers the questionnaire, is corrected and confirms. */
export async function planning() {
  const { context, page, pageErrors } = await reader();
  await page.goto(`${HUB}/what-if`);
  await signIn(page, KEY);
  await page.getByRole("heading", { name: "What if" }).waitFor();
  const offered = page.getByLabel("From").locator("option");
  // The page is there before its list of endpoints.
  await offered.nth(2).waitFor({ state: "attached" });
  const endpoints = await offered.allTextContents();
  await page.getByLabel("From").selectOption(endpoints[1]);
  await page.getByLabel("To").selectOption(endpoints[2]);
  await page.getByLabel("TB", { exact: true }).fill("0.5");
  await page.getByRole("button", { name: "Simulate" }).click();
  await page.getByRole("row", { name: /^All done/ }).waitFor({ timeout: 20_000 });
  const arrived = page.getByRole("row", { name: /^Files that arrive/ }).getByRole("cell").last();
  assert.match(await arrived.textContent(), /^50 of 50|^5\d of 5\d/);
  await isAccessible(page, "a what-if answer");

  await page.getByRole("link", { name: "Sites" }).click();
  await page.getByLabel("Another site").fill("jodrell bank");
  await page.getByRole("button", { name: "Open its questionnaire" }).click();
  await page.getByRole("heading", { name: "Site jodrell bank" }).waitFor();
  await page.getByLabel("How much disk space").fill("2 PB");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("without the unit").waitFor();
  await page.getByLabel("How much disk space").fill("2");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("no answer to: Is there a firewall").waitFor();
  await page.getByRole("button", { name: "Confirm as it stands" }).click();
  await page.getByText("the record is not complete").waitFor();
  await page.getByLabel("Who answers questions").fill("ann@jb.example");
  await page.getByLabel("How is the disk space protected").selectOption("raid6");
  await page.getByLabel("At which rate can one data transfer write").fill("16");
  await page.getByLabel("What is the capacity of the site").fill("100");
  await page.getByLabel("Can the link be raised").selectOption("yes");
  await page.getByLabel("Does the site have or plan a data transfer node").selectOption("yes");
  await page.getByLabel("Does the site have a science DMZ").selectOption("no");
  await page.getByLabel("Is there a firewall").selectOption("yes");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("no answer to").first().waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Confirm as it stands" }).click();
  await page.getByText("State: confirmed").waitFor();
  await isAccessible(page, "a questionnaire");
  await page.getByRole("link", { name: "All sites" }).click();
  await page.getByRole("row", { name: /jodrell bank.*confirmed/ }).waitFor();
  await page.getByRole("row", { name: /Link of 100 Gbit\/s or more 1 of 1/ }).waitFor();
  await isAccessible(page, "the catalogue of sites");
  assert.deepEqual(pageErrors, []);
  await context.close();
}
