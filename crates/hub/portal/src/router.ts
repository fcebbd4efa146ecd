/** The address bar holds the view: every page has an address that can be kept, sent and gone back to. */

import { signal } from "@preact/signals";

/** Where the reader is: path and query. */
export const place = signal(location.pathname + location.search);

addEventListener("popstate", () => {
  place.value = location.pathname + location.search;
});

/** Goes to another page of the portal. */
export function go(to: string): void {
  history.pushState(null, "", to);
  place.value = to;
  scrollTo(0, 0);
  // A screen reader begins with the new page.
  document.querySelector<HTMLElement>("main")?.focus();
}

/** Has links of the portal lead there without the page being loaded anew. */
addEventListener("click", (event) => {
  const link = (event.target as Element | null)?.closest?.("a");
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!link || !isPlain || event.defaultPrevented || link.origin !== location.origin || link.target !== "" || link.hasAttribute("download")) return;
  if (link.pathname.startsWith("/api/")) return;
  event.preventDefault();
  go(link.pathname + link.search);
});

/** The path of the page, and its query. */
export function parts(): { path: string[]; query: URLSearchParams } {
  const url = new URL(place.value, location.origin);
  return { path: url.pathname.split("/").filter((part) => part !== "").map(decodeURIComponent), query: url.searchParams };
}
