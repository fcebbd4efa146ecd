import assert from "node:assert/strict";

import { HUB, isAccessible, KEY, reader, signIn } from "../reader.mjs";

/** Errors are shown, and disappear once they are over. */
export async function errors() {
  const { context, page, pageErrors } = await reader();
  await page.goto(`${HUB}/queue`);
  await signIn(page, KEY);
  await page.getByText("Nothing waits and nothing moves").waitFor();
  const shares = /\/api\/v1\/shares$/;
  await page.route(shares, (route) => route.fulfill({ status: 500, contentType: "application/problem+json", body: JSON.stringify({ status: 500, reason: "the database does not answer" }) }));
  await page.getByText("the database does not answer").waitFor();
  await page.getByText("Nothing waits and nothing moves").waitFor();
  await isAccessible(page, "a hub in trouble");
  await page.unroute(shares);
  await page.getByText("the database does not answer").waitFor({ state: "detached" });
  await page.route(shares, (route) => route.abort("connectionrefused"));
  await page.getByText("The hub does not answer").waitFor();
  await page.unroute(shares);
  await page.getByText("The hub does not answer").waitFor({ state: "detached" });

  // After the session has ended, the page asks for a sign-in, and then shows the same view.
  await context.clearCookies();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await signIn(page, KEY);
  await page.getByRole("heading", { name: "Queue and shares" }).waitFor();

  // A huge text, pasted by mistake, is refused, and the hub still works.
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.getByLabel("Access key or token").evaluate((input) => {
    input.value = "k".repeat(5_000_000);
    input.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator(".trouble").waitFor();
  await signIn(page, KEY);
  await page.getByRole("heading", { name: "Queue and shares" }).waitFor();
  assert.deepEqual(pageErrors, []);
  await context.close();
}
