import type { z } from 'zod'
import type { Components } from './openapi-components.ts'

type Json = Readonly<Record<string, unknown>>

/** An event that the service sends to receivers: what the document says of it under `webhooks`. */
export type WebhookDeclaration = {
  /** E.g. `order.fulfilled`. */
  readonly name: string
  /** Stable for ever: client libraries are named after it. */
  readonly operationId: string
  readonly summary: string
  readonly description: string
  readonly body: z.ZodType
  readonly example: unknown
  /** Headers of the request, with their description and an example. */
  readonly headers: Readonly<Record<string, { readonly description: string; readonly example: string }>>
}

const operationOf = (webhook: WebhookDeclaration, components: Components): Json => ({
  operationId: webhook.operationId,
  summary: webhook.summary,
  description: webhook.description,
  tags: ['Webhooks'],
  security: [],
  parameters: Object.entries(webhook.headers).map(([name, { description, example }]) => ({
    name,
    in: 'header',
    description,
    schema: { type: 'string' },
    example,
  })),
  requestBody: {
    required: true,
    content: {
      'application/json': {
        // An answer of ours by nature: receivers must bear fields that come later.
        schema: components.add(webhook.body, 'output'),
        example: webhook.example,
      },
    },
  },
  responses: {
    '2XX': { description: 'Any 2xx acknowledges. Answer within 10 seconds, and do the work afterwards.' },
    '4XX': { description: 'Anything else is sent again later; 410 disables the endpoint.' },
  },
})

/** The part `webhooks` of the document; nothing where nothing is sent. */
export const webhooksPart = (webhooks: readonly WebhookDeclaration[], components: Components): Json =>
  webhooks.length === 0
    ? {}
    : {
        webhooks: Object.fromEntries(
          webhooks.map((webhook) => [webhook.name, { post: operationOf(webhook, components) }]),
        ),
      }
