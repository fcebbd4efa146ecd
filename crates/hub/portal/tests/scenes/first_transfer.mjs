import assert from "node:assert/strict";

import { HUB, isAccessible, KEY, reader, signIn, SOURCE, TARGET } from "../reader.mjs";

/** A user signs in, moves a folder, watches its progress, returns to it, and signs out. */
export async function firstTransfer() {
  const { context, page, requests, pageErrors } = await reader();
  const begun = performance.now();
  await page.goto(HUB);
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  console.log(`first view after ${Math.round(performance.now() - begun)} ms`);
  await isAccessible(page, "sign in");

  await signIn(page, `${KEY.slice(0, -8)}AAAAAAAA`);
  await page.getByText("ask an operator of the hub for a new one").waitFor();
  await signIn(page, KEY);
  await page.getByRole("heading", { name: "Transfers" }).waitFor();
  const [cookie] = (await context.cookies()).filter((one) => one.name.includes("longhaul-hub"));
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.secure], [true, "Strict", HUB.startsWith("https:")]);
  assert.ok(!(await page.evaluate(() => document.cookie)).includes("longhaul"), "scripts cannot read the session");
  await page.getByText("Nothing has been submitted yet").waitFor();
  await isAccessible(page, "no transfers");

  // With the keyboard only.
  await page.getByRole("link", { name: "New transfer" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "New transfer" }).waitFor();
  await isAccessible(page, "new transfer");
  const from = page.getByRole("group", { name: "From" });
  const to = page.getByRole("group", { name: "To" });
  await from.getByLabel("URL", { exact: true }).fill("nowhere");
  await to.getByLabel("URL", { exact: true }).fill(TARGET);
  await page.getByRole("button", { name: "Move" }).click();
  await page.locator(".trouble").waitFor();
  await from.getByLabel("URL", { exact: true }).fill(SOURCE);
  await page.getByLabel("Approximate size, GB").fill("1000");
  await page.getByRole("button", { name: "Estimate" }).click();
  await page.getByText(/About .* for 1.00 TB at/).waitFor();
  await page.getByLabel("Rate limit, Mbit/s").fill("800");
  await page.getByRole("button", { name: "Estimate" }).click();
  await page.getByText("at 800 Mbit/s: the limit of the job").waitFor();
  await page.getByRole("button", { name: "Move" }).click();
  await page.getByRole("heading", { name: /^Transfer / }).waitFor();
  const address = page.url();
  await page.locator("dd .state.done").waitFor();
  await page.getByText("arrived and verified").waitFor();
  await isAccessible(page, "a transfer");

  // The address determines the view: it can be reloaded, returned to, and opened in another tab.
  await page.reload();
  await page.locator("dd .state.done").waitFor();
  await page.goBack();
  await page.getByRole("heading", { name: "New transfer" }).waitFor();
  await page.getByRole("link", { name: "Transfers", exact: true }).click();
  await page.locator("tbody tr").first().waitFor();
  await isAccessible(page, "transfers");
  const second = await context.newPage();
  await second.goto(address);
  await second.locator("dd .state.done").waitFor();

  // The transfer is repeated every night, and then the repetition is ended.
  await page.goto(`${HUB}/transfers/new`);
  await from.getByLabel("URL", { exact: true }).fill(SOURCE);
  await to.getByLabel("URL", { exact: true }).fill(TARGET);
  await page.getByLabel("Repeat every night at").fill("02:30");
  await page.getByRole("button", { name: "Move" }).click();
  await page.getByText("every day at 02:30").waitFor();
  await isAccessible(page, "repeats");
  await page.getByRole("button", { name: /^End the repeat of/ }).click();
  await page.getByText("Nothing is repeated").waitFor();
  await page.getByRole("link", { name: "Transfers", exact: true }).click();
  await page.locator("tbody tr").first().waitFor();

  // A name that looks like markup is shown as text.
  assert.equal(await page.evaluate(() => window.broken), undefined);

  // Signing out in one tab ends the session in the other one, too.
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await second.getByRole("heading", { name: "Sign in" }).waitFor();
  await context.addCookies([cookie]);
  const again = await context.request.get(`${HUB}/api/v1/whoami`);
  assert.equal(again.status(), 401, "an ended session is not accepted");

  const own = new URL(HUB).origin;
  assert.deepEqual(requests.filter((url) => new URL(url).origin !== own), [], "no other server gets requests");
  assert.deepEqual(pageErrors, []);
  await context.close();
}
