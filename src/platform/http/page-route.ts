import type { Page } from '../pages/page.ts'
import { fixedText } from './fixed-text.ts'
import { onDemand } from './on-demand.ts'
import { type Route, route } from './route.ts'

/** A page for people, the same for all, under its policy; made when somebody looks at it first. */
export const pageRoute = (page: {
  readonly path: string
  readonly operationId: string
  readonly summary: string
  /** Called by the first request. */
  readonly page: () => Promise<Page>
}): Route => {
  const made = onDemand(async () => {
    const { html, policy } = await page.page()
    return { html: fixedText(html), policy }
  })
  return route({
    method: 'GET',
    path: page.path,
    operationId: page.operationId,
    summary: page.summary,
    description: 'A page for people.',
    tag: 'Service',
    access: 'public',
    writes: false,
    hidden: true,
    responses: {
      200: { description: 'The page.', text: { mediaType: 'text/html', example: '' } },
      304: { description: 'The page is the one that If-None-Match names.' },
    },
    errors: [],
    handler: async ({ headers }) => {
      const { html, policy } = await made()
      const answer = html(headers)
      return { ...answer, headers: { ...answer.headers, 'content-security-policy': policy } }
    },
  })
}
