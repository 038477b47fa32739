import { fixedText, jsonText } from '../http/answer.ts'
import { onDemand } from '../http/json-schema.ts'
import { type Route, route } from '../http/route.ts'
import { pageRoute } from '../ui/bare-page.ts'
import { docsPage } from './docs-page.ts'
import { guideRoutes, readGuides } from './guides.ts'
import { buildOpenApiDocumentInSteps, type OpenApiDocument } from './openapi-document.ts'
import type { WebhookDeclaration } from './openapi-webhooks.ts'

/** An interface description: `GET /openapi.json` or the shorter `GET /openapi-core.json`. */
const openApiRoute = (
  routeInfo: Pick<Route, 'path' | 'operationId' | 'summary'>,
  buildDocument: () => Promise<OpenApiDocument>,
): Route => {
  const document = onDemand(async () => fixedText(jsonText(await buildDocument())))
  return route({
    ...routeInfo,
    method: 'GET',
    description: 'OpenAPI 3.1.0.',
    tag: 'Service',
    access: 'public',
    writes: false,
    hidden: true,
    cors: true,
    responses: {
      200: {
        description: 'The document.',
        text: { mediaType: 'application/json', example: '{}' },
      },
      304: { description: 'The document is the one that If-None-Match names.' },
    },
    errors: [],
    handler: async ({ headers }) => (await document())(headers),
  })
}

/** `GET /docs`: the documentation for people, one page that makes no further request. */
const docsRoute = (page: Parameters<typeof pageRoute>[0]['page']): Route =>
  pageRoute({
    path: '/docs',
    operationId: 'getDocumentation',
    summary: 'The documentation',
    page,
  })

/**
 * The interface description, the documentation page and the guides of the given routes and webhooks. They are generated
 * at the first request, so that they do not delay the start.
 */
export const documentationRoutes = (
  routes: readonly Route[],
  {
    webhooks = [],
    operations = [],
    publicUrl,
  }: {
    readonly webhooks?: readonly WebhookDeclaration[]
    /** Cases of one route that programs see as separate operations. The page for people has a guide to them instead. */
    readonly operations?: readonly Route[]
    /** The address of the service for clients. Called after the server listens. Left out: the address is not known. */
    readonly publicUrl?: () => string
  } = {},
): readonly Route[] => {
  const buildDocument = (all: readonly Route[]) =>
    onDemand(() =>
      buildOpenApiDocumentInSteps(all, { webhooks, ...(publicUrl && { serverUrl: publicUrl() }) }),
    )
  const document = buildDocument(routes)
  const fullDocument = buildDocument([...routes, ...operations])
  const guides = readGuides()
  return [
    openApiRoute(
      {
        path: '/openapi.json',
        operationId: 'getInterfaceDescription',
        summary: 'The interface description',
      },
      fullDocument,
    ),
    openApiRoute(
      {
        path: '/openapi-core.json',
        operationId: 'getCoreInterfaceDescription',
        summary: 'The interface description without an operation for each scraper',
      },
      document,
    ),
    docsRoute(async () => docsPage(await document(), guides)),
    ...guideRoutes([...guides.callers, ...guides.operators]),
  ]
}
