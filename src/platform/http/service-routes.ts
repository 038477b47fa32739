import { guideRoutes, readGuides } from './docs/guides.ts'
import { docsPage } from './docs/page.ts'
import { pageRoute } from './docs/page-route.ts'
import { fixedText } from './fixed-text.ts'
import { jsonText } from './json-bytes.ts'
import { openApiDocument } from './openapi/document.ts'
import type { WebhookDeclaration } from './openapi/webhooks.ts'
import type { Route } from './route.ts'
import { route } from './route.ts'

/** `GET /openapi.json`: the interface description of the given routes. */
const openApiRoute = (text: string): Route => {
  const document = fixedText(text)
  return route({
    method: 'GET',
    path: '/openapi.json',
    operationId: 'getInterfaceDescription',
    summary: 'The interface description',
    description: 'OpenAPI 3.1.0.',
    tag: 'Service',
    access: 'public',
    writes: false,
    hidden: true,
    cors: true,
    responses: {
      200: {
        description: 'The document.',
        text: { mediaType: 'application/json', example: text },
      },
      304: { description: 'The document is the one that If-None-Match names.' },
    },
    errors: [],
    handler: async ({ headers }) => document(headers),
  })
}

/** `GET /docs`: the same for people, one page without a single request elsewhere. */
const docsRoute = (html: string, policy: string): Route =>
  pageRoute({
    path: '/docs',
    operationId: 'getDocumentation',
    summary: 'The documentation',
    html,
    policy,
  })

/** `GET /`: the address that the start printed leads to the documentation. */
const rootRoute: Route = route({
  method: 'GET',
  path: '/',
  operationId: 'getRoot',
  summary: 'The way to the documentation',
  description: 'A redirect.',
  tag: 'Service',
  access: 'public',
  writes: false,
  hidden: true,
  responses: { 302: { description: 'The documentation is at /docs.' } },
  errors: [],
  handler: async () => ({ status: 302, headers: { location: '/docs' } }),
})

/** The interface description, the documentation page and the guides of the given routes, and of what is sent to receivers. */
export const documentationRoutes = (
  routes: readonly Route[],
  webhooks: readonly WebhookDeclaration[] = [],
): readonly Route[] => {
  const document = openApiDocument(routes, { webhooks })
  const guides = readGuides()
  const { html, policy } = docsPage(document, guides)
  return [
    rootRoute,
    openApiRoute(jsonText(document)),
    docsRoute(html, policy),
    ...guideRoutes([...guides.callers, ...guides.operators]),
  ]
}
