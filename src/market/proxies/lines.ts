/** What a page was asked for with, as a query string has it. */
type AskedFor = Readonly<Record<string, string | undefined>>

/** What a page of lines tells in its headers, since no line can; for the interface description. */
export const pageHeaderTexts = {
  'X-Farebox-Total': 'txt only: how many addresses fit, over every page',
  Link: 'txt only, when more lines follow: `<…>; rel="next"`, the path and query of the next page (RFC 8288)',
} as const

/**
 * The headers of a page of lines. The link is relative to the server, which does not know by which name it was reached;
 * it asks for the same again.
 */
export const pageHeaders = (
  path: string,
  asked: AskedFor,
  page: { readonly limit: number; readonly offset: number; readonly total: number },
): Readonly<Record<string, string>> => {
  const { limit, offset, total } = page
  const counted = { 'x-farebox-total': String(total) }
  if (offset + limit >= total) return counted
  const next = new URLSearchParams()
  for (const [name, value] of Object.entries(asked)) if (value !== undefined) next.set(name, value)
  next.set('limit', String(limit))
  next.set('offset', String(offset + limit))
  return { ...counted, link: `<${path}?${next}>; rel="next"` }
}
