// Tests signing in with a provider, in a real browser. Environment variables: HUB, PROVIDER (their URLs), CHROMIUM.

import assert from "node:assert/strict";

import { browser, HUB, isAccessible, reader } from "./reader.mjs";

async function atProvider(page, name) {
  await page.getByRole("link", { name: "Sign in with Institute" }).click();
  await page.locator("input[name=login]").fill(name);
  await page.locator("input[name=password]").fill("any");
  await page.locator("button[type=submit]").click();
  await page.getByRole("button", { name: "Continue" }).click();
}

/** A member signs in with the provider, has the name that the provider gave, and returns to the page before. */
async function member() {
  const { context, page, pageErrors } = await reader();
  await page.goto(`${HUB}/queue`);
  await page.getByRole("link", { name: "Sign in with Institute" }).waitFor();
  await isAccessible(page, "sign in with a provider");
  await atProvider(page, "ops-ann");
  await page.getByRole("heading", { name: "Queue and shares" }).waitFor();
  await page.getByText("ops-ann (operator)").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.equal((await context.request.get(`${HUB}/api/v1/whoami`)).status(), 401);
  assert.deepEqual(pageErrors, []);
  await context.close();
}

/** A person whom the provider knows, but who is not a member. */
async function nobody() {
  const { context, page } = await reader();
  await page.goto(HUB);
  await atProvider(page, "mallory");
  await page.getByText("is no member of this collaboration").waitFor();
  assert.equal((await context.request.get(`${HUB}/api/v1/whoami`)).status(), 401);
  await context.close();
}

/** Answers that do not belong to a sign-in of this browser begin no session, whether they are another user's, used again, or forged. */
async function forged() {
  const { context, page } = await reader();
  const answers = [];
  page.on("request", (request) => request.url().includes("/answer?") && answers.push(request.url()));
  await page.goto(HUB);
  await atProvider(page, "ops-bob");
  await page.getByText("ops-bob (operator)").waitFor();
  assert.equal(answers.length, 1);
  const victim = await browser.newContext({ ignoreHTTPSErrors: true });
  for (const url of [answers[0], `${HUB}/api/v1/sign-in/institute/answer?code=x&state=y`]) {
    const answer = await victim.request.get(url);
    assert.equal(answer.status(), 400, url);
    assert.ok((await answer.text()).includes("this browser has no sign-in"));
  }
  const refused = await victim.request.get(`${HUB}/api/v1/sign-in/institute/answer?error=access_denied&error_description=%3Cscript%3E`);
  assert.ok((await refused.text()).includes("&lt;script&gt;"), "the text of a provider is not markup");
  assert.equal((await victim.request.get(`${HUB}/api/v1/whoami`)).status(), 401);
  await victim.close();
  await context.close();
}

try {
  await member();
  await nobody();
  await forged();
} finally {
  await browser.close();
}
