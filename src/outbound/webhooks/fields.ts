import { z } from 'zod'
import { maxUrlLength } from '../../platform/outgoing/target.ts'
import { type Subscription, type WebhookEventName, webhookEvents } from './event-names.ts'

export const urlField = z.string().meta({
  description: `An https URL of at most ${maxUrlLength} characters whose host is public.`,
  override: { type: 'string', format: 'uri', maxLength: maxUrlLength },
})

const known: ReadonlySet<string> = new Set(webhookEvents)
const quoted = (names: readonly string[]): string =>
  [...new Set(names)]
    .slice(0, 20)
    .map((name) => JSON.stringify(name.slice(0, 100)))
    .join(', ')

/** Texts, so that the refusal can list all unknown names at once. */
export const eventsField = z
  .array(z.string())
  .superRefine((names, context) => {
    const accepted = `accepted are ${webhookEvents.join(', ')}`
    const unknown = names.filter((name) => !known.has(name))
    const twice = names.filter((name, index) => names.indexOf(name) !== index)
    if (names.length === 0) context.addIssue(`must name at least one event; ${accepted}`)
    else if (unknown.length > 0) context.addIssue(`has unknown names: ${quoted(unknown)}; ${accepted}`)
    else if (twice.length > 0) context.addIssue(`names an event twice: ${quoted(twice)}`)
  })
  .meta({
    description:
      'Distinct names of events, at least one; left out: all but `scrape.batch.finished`, which has to be named.',
    override: {
      type: 'array',
      minItems: 1,
      uniqueItems: true,
      items: { type: 'string', enum: [...webhookEvents] },
    },
  })

/** In the order of `webhookEvents`, so that the same choice in another order is the same subscription. */
export const subscriptionOf = (names: readonly string[] | undefined): Subscription =>
  names === undefined ? null : (webhookEvents.filter((name) => names.includes(name)) as WebhookEventName[])
