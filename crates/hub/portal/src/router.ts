/** The address of the page determines the view, so that every view can be bookmarked, sent and returned to. */

import { signal } from "@preact/signals";

/** The path and query of the current view. */
export const address = signal(location.pathname + location.search);

addEventListener("popstate", () => {
  address.value = location.pathname + location.search;
});

/** Goes to another page of the portal. */
export function go(to: string): void {
  history.pushState(null, "", to);
  address.value = to;
  scrollTo(0, 0);
  // A screen reader continues at the new page.
  document.querySelector<HTMLElement>("main")?.focus();
}

/** Follows links within the portal without reloading the page. */
addEventListener("click", (event) => {
  const link = (event.target as Element | null)?.closest?.("a");
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!link || !isPlain || event.defaultPrevented || link.origin !== location.origin || link.target !== "" || link.hasAttribute("download")) return;
  if (link.pathname.startsWith("/api/")) return;
  event.preventDefault();
  go(link.pathname + link.search);
});

/** The parts of the path of the current view, and its query. */
export function parts(): { path: string[]; query: URLSearchParams } {
  const url = new URL(address.value, location.origin);
  return { path: url.pathname.split("/").filter((part) => part !== "").map(decodeURIComponent), query: url.searchParams };
}
