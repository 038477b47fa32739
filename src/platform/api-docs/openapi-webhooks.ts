import type { z } from 'zod'
import type { Components } from './openapi-components.ts'
import { pascal } from './schema-rules.ts'

type Json = Readonly<Record<string, unknown>>

/** An event that the service sends to receivers, for the part `webhooks` of the document. */
export type WebhookDeclaration = {
  /** E.g. `order.fulfilled`. */
  readonly name: string
  /** Must not change: client libraries are named after it. */
  readonly operationId: string
  readonly summary: string
  readonly description: string
  readonly body: z.ZodType
  readonly example: unknown
  /** Headers of the request, with their description and an example. */
  readonly headers: Readonly<Record<string, { readonly description: string; readonly example: string }>>
}

/** Not the tag of an operation: generators make one file of each tag. */
export const eventsTag = { name: 'Events', description: 'What is sent to webhook endpoints.' }

const operationOf = (webhook: WebhookDeclaration, components: Components): Json => ({
  operationId: webhook.operationId,
  summary: webhook.summary,
  description: webhook.description,
  tags: [eventsTag.name],
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
        // Described as an answer, because receivers must accept fields that are added later.
        schema: components.add(webhook.body, 'output', `${pascal(webhook.name)}Event`),
        example: webhook.example,
      },
    },
  },
  responses: {
    '2XX': { description: 'Any 2xx acknowledges. Answer within 10 seconds, and do the work afterwards.' },
    '4XX': { description: 'Anything else is sent again later; 410 disables the endpoint.' },
  },
})

/** The part `webhooks` of the document; empty if the service sends no events. */
export const webhooksPart = (webhooks: readonly WebhookDeclaration[], components: Components): Json =>
  webhooks.length === 0
    ? {}
    : {
        webhooks: Object.fromEntries(
          webhooks.map((webhook) => [webhook.name, { post: operationOf(webhook, components) }]),
        ),
      }
