import { deliveriesAfter, showDelivery } from '../../../projections/webhooks.ts'
import { type DeliveryStatus, defaultEvents, webhookEvents } from '../../domain/webhooks/events.ts'
import { isoTime } from '../../kernel/clock.ts'
import { refuse } from '../../platform/http/errors.ts'
import { inRange } from '../../platform/http/query.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import { refusalOf } from '../../platform/ui/answer-page.ts'
import {
  choicesOf,
  type FormInput,
  type FormState,
  fieldOf,
  formOf,
  postButton,
  problemsIn,
} from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  type FormRefusal,
  goTo,
  refused,
  refusedBy,
} from '../../platform/ui/page.ts'
import { detailsOf, listOf, tableOf } from '../../platform/ui/table.ts'
import {
  afterText,
  type BadgeTone,
  buttonLink,
  countText,
  idText,
  oneOf,
  stateText,
  timeText,
} from '../../platform/ui/text.ts'
import { eventsField, subscriptionOf } from './routes.ts'
import {
  type DeliveryRecord,
  deliveryRecord,
  deliveryStatuses,
  type WebhookRecord,
} from './webhook-record.ts'
import type { WebhookService } from './webhook-service.ts'

const root = '/console/webhooks'
const dayMs = 86_400_000

const pathOf = (id: string): string => `${root}/${id}`
const ownerOf = ({ account, params }: AccountVisit) => ({
  accountId: account.accountId,
  endpointId: params.id ?? '',
})

const endpointState = ({ status, disabledReason }: WebhookRecord): Html => {
  if (status === 'active') return stateText('active', 'good')
  if (disabledReason === 'gone') return stateText('disabled: the receiver answered 410', 'bad')
  if (disabledReason === 'failing') return stateText('disabled: every attempt failed for five days', 'bad')
  return stateText('disabled', 'off')
}

const deliveryBadges: Readonly<Record<DeliveryStatus, readonly [string, BadgeTone]>> = {
  pending: ['pending', 'warn'],
  succeeded: ['delivered', 'good'],
  abandoned: ['failed', 'bad'],
  canceled: ['canceled', 'off'],
}
const deliveryState = (status: DeliveryStatus): Html => stateText(...deliveryBadges[status])

/** The result of the last attempt. */
const lastAnswer = ({ attempts }: DeliveryRecord): string => {
  const last = attempts.at(-1)
  if (!last) return 'not tried yet'
  return last.status === null ? (last.error ?? 'no answer') : `answered ${last.status}`
}

/** Parses a time of a form in UTC, a `datetime-local` value or a day, to milliseconds; undefined for anything else. */
const instantOf = (text: string): number | undefined => {
  if (!/^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?$/.test(text)) return undefined
  const ms = Date.parse(text.length === 10 ? text : `${text.replace(' ', 'T')}Z`)
  return Number.isNaN(ms) ? undefined : inRange(ms)
}

const endpointFields = (
  form: FormState,
  subscribed: Pick<WebhookRecord, 'url' | 'events'>,
): readonly Html[] => [
  fieldOf(
    {
      name: 'url',
      label: 'URL',
      hint: 'An https:// URL of a public host. It is stored encrypted.',
      maxlength: 2_048,
      value: subscribed.url,
    },
    form,
  ),
  choicesOf(
    {
      name: 'events',
      legend: 'Events',
      choices: webhookEvents.map((value) => ({ value, label: value })),
      chosen: subscribed.events,
    },
    form,
  ),
]

/** The chosen events, or the error. If all are still ticked, the subscription includes events of later versions too. */
const eventsOf = (typed: FormInput) => {
  const read = eventsField.safeParse(typed.all('events'))
  if (!read.success) return { problem: `It ${read.error.issues[0]?.message ?? 'cannot be read'}.` }
  const chosenEvents = subscriptionOf(read.data) ?? []
  return { events: String(chosenEvents) === String(defaultEvents) ? null : chosenEvents }
}

const secretView = (title: string, path: string, secret: string, more: Html): View => ({
  title,
  body: html`<p>Copy the signing secret now. It is shown only once.</p>
<code class="secret">${secret}</code>
${more}
<p class="actions">${buttonLink(path, 'I have copied it')}</p>`,
  cliEquivalents: ['# check webhook-signature of each delivery with it: docs/guides/webhooks.md'],
})

/** A refusal, at the field that it names. */
const refusedEndpoint = (error: unknown): FormRefusal => {
  const { text, status } = refusalOf(error)
  return refused({ [text.startsWith('Url ') ? 'url' : 'form']: text }, status)
}

/** Webhook endpoints of an account and their deliveries. */
export const webhookPages = ({
  webhookService,
  db,
}: {
  readonly webhookService: WebhookService
  readonly db: Db
}): readonly ConsolePage[] => {
  const findEndpoint = (visit: AccountVisit) => webhookService.find(ownerOf(visit), null)

  const deliveriesOf = async (visit: AccountVisit): Promise<Html> => {
    const owner = ownerOf(visit)
    const path = pathOf(owner.endpointId)
    const status = oneOf(deliveryStatuses, visit.query.get('status'))
    await webhookService.deliveriesReady(owner, null)
    return listOf(visit, {
      caption: 'Deliveries of the last 30 days, newest first',
      filters: [
        {
          name: 'status',
          label: 'State',
          value: status,
          choices: deliveryStatuses.map((value) => ({ value, label: deliveryBadges[value][0] })),
        },
      ],
      load: async (page) =>
        (await deliveriesAfter(db, owner.endpointId, { status, ...page })).map(deliveryRecord),
      keyOf: ({ createdAt, id }) => afterText(createdAt, id),
      empty: 'Nothing was sent yet. Send a ping to test the receiver.',
      columns: [
        {
          title: 'Event',
          head: true,
          cell: ({ id, event }) => html`<a href="${path}/deliveries/${id}">${event}</a>`,
        },
        { title: 'Subject', cell: ({ resource }) => idText(resource) },
        { title: 'State', cell: ({ status: each }) => deliveryState(each) },
        { title: 'Attempts', number: true, cell: ({ attempts }) => attempts.length },
        { title: 'Last attempt', cell: lastAnswer },
        { title: 'Next attempt', cell: ({ nextAttemptAt }) => timeText(nextAttemptAt, 'none') },
        { title: 'Queued', cell: ({ createdAt }) => timeText(createdAt) },
      ],
    })
  }

  return [
    accountPage({
      path: '/console/webhooks',
      name: 'showWebhooks',
      summary: 'The webhook endpoints of the account',
      nav: { label: 'Webhooks' },
      show: async ({ account }) => {
        const page = { limit: 100, offset: 0 }
        const { webhooks } = await webhookService.list(account.accountId, page, null)
        return {
          title: 'Webhooks',
          actions: buttonLink(`${root}/new`, 'Register endpoint', 'first'),
          body: tableOf({
            caption: 'Webhook endpoints, newest first',
            rows: webhooks,
            empty: html`<p>There is no endpoint yet. <a href="${root}/new">Register the first one</a></p>`,
            columns: [
              {
                title: 'Endpoint',
                head: true,
                cell: ({ id, url }) => html`<a href="${pathOf(id)}">${url}</a><br>${idText(id)}`,
              },
              { title: 'State', cell: endpointState },
              { title: 'Events', cell: ({ events }) => countText(events.length, 'event') },
              { title: 'Since', cell: ({ createdAt }) => timeText(createdAt) },
            ],
          }),
          cliEquivalents: ['curl $API/webhooks -H "X-API-Key: $KEY"'],
        }
      },
    }),
    accountPage({
      path: '/console/webhooks/new',
      name: 'newWebhook',
      summary: 'Registers a webhook endpoint',
      confirmed: true,
      show: async ({ form }) => ({
        title: 'Register endpoint',
        body: formOf(form, {
          fields: endpointFields(form, { url: '', events: [...defaultEvents] }),
          submit: 'Register endpoint',
          back: root,
        }),
        cliEquivalents: [
          `curl -X POST $API/webhooks -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '{"url":"https://example.com/hooks"}'`,
        ],
      }),
      act: {
        once: true,
        run: async ({ account, cause }, typed) => {
          const url = typed.text('url')
          const { events, problem } = eventsOf(typed)
          const problems = problemsIn({ url: url === '' && 'Type the URL of the receiver.', events: problem })
          if (problems || events === undefined) return refused(problems ?? {})
          try {
            const registered = await webhookService.register(account.accountId, { url, events }, cause)
            return secretView(
              'Your endpoint',
              pathOf(registered.endpointId),
              registered.secret,
              html`<p>${registered.url} receives ${countText((events ?? defaultEvents).length, 'event')}.</p>`,
            )
          } catch (error) {
            return refusedEndpoint(error)
          }
        },
      },
    }),
    accountPage({
      path: '/console/webhooks/{id}',
      name: 'showWebhook',
      summary: 'One webhook endpoint with its deliveries',
      show: async (visit) => {
        const webhook = await findEndpoint(visit)
        const path = pathOf(webhook.id)
        const active = webhook.status === 'active'
        const actionButton = (value: string, label: string): Html =>
          postButton(visit.form, { name: 'do', value, label, action: path })
        return {
          title: 'Webhook endpoint',
          actions: html`${active ? actionButton('ping', 'Send ping') : null}
${buttonLink(`${path}/change`, 'Change')}${buttonLink(`${path}/secret`, 'Rotate secret')}${buttonLink(`${path}/redeliver`, 'Send again')}
${active ? actionButton('disable', 'Disable') : actionButton('enable', 'Enable')}
${buttonLink(`${path}/delete`, 'Delete', 'danger')}`,
          body: html`${detailsOf([
            ['URL', webhook.url],
            ['Endpoint', idText(webhook.id)],
            ['State', endpointState(webhook)],
            ['Events', webhook.events.join(', ')],
            ['Since', timeText(webhook.createdAt)],
          ])}
<h2>Deliveries</h2>
${await deliveriesOf(visit)}`,
          cliEquivalents: [
            `curl $API/webhooks/${webhook.id} -H "X-API-Key: $KEY"`,
            `curl $API/webhooks/${webhook.id}/deliveries -H "X-API-Key: $KEY"`,
            `curl -X POST $API/webhooks/${webhook.id}/test -H "X-API-Key: $KEY"`,
          ],
        }
      },
      act: {
        once: true,
        run: async (visit, typed) => {
          const owner = ownerOf(visit)
          const path = pathOf(owner.endpointId)
          const operation = typed.text('do')
          try {
            if (operation === 'ping') {
              const { deliveryId } = await webhookService.ping(owner, visit.cause)
              return goTo(path, `A ping is queued as ${deliveryId}.`)
            }
            if (operation !== 'enable' && operation !== 'disable')
              throw refuse('invalid_body', 'the form must say ping, enable or disable')
            const status = operation === 'enable' ? 'active' : 'disabled'
            await webhookService.change(owner, { status }, visit.cause, null)
            return goTo(
              path,
              status === 'active'
                ? 'The endpoint is active.'
                : 'The endpoint is disabled, and its pending deliveries are canceled.',
            )
          } catch (error) {
            return refusedBy(error)
          }
        },
      },
    }),
    accountPage({
      path: '/console/webhooks/{id}/change',
      name: 'changeWebhook',
      summary: 'Changes the URL or the events of a webhook endpoint',
      show: async (visit) => {
        const webhook = await findEndpoint(visit)
        return {
          title: 'Change endpoint',
          body: formOf(visit.form, {
            fields: endpointFields(visit.form, webhook),
            submit: 'Change endpoint',
            back: pathOf(webhook.id),
          }),
          cliEquivalents: [
            `curl -X PATCH $API/webhooks/${webhook.id} -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '{"events":["order.fulfilled"]}'`,
          ],
        }
      },
      act: {
        run: async (visit, typed) => {
          const now = await findEndpoint(visit)
          const url = typed.text('url')
          const { events, problem } = eventsOf(typed)
          if (events === undefined) return refused({ events: problem })
          const chosenEvents = events ?? defaultEvents
          const changes = {
            url: url === now.url ? undefined : url,
            events: String(chosenEvents) === String(now.events) ? undefined : chosenEvents,
          }
          try {
            await webhookService.change(ownerOf(visit), changes, visit.cause, null)
            return goTo(pathOf(now.id), 'The endpoint is changed.')
          } catch (error) {
            return refusedEndpoint(error)
          }
        },
      },
    }),
    accountPage({
      path: '/console/webhooks/{id}/secret',
      name: 'rotateWebhook',
      summary: 'Rotates the signing secret of a webhook endpoint',
      confirmed: true,
      show: async (visit) => {
        const { id, url } = await findEndpoint(visit)
        return {
          title: 'Rotate signing secret',
          body: html`<p>Deliveries to ${url} are signed with a new secret. For 24 hours they also carry a signature of the old one.</p>
${formOf(visit.form, { submit: 'Rotate secret', back: pathOf(id) })}`,
          cliEquivalents: [`curl -X POST $API/webhooks/${id}/rotate-secret -H "X-API-Key: $KEY"`],
        }
      },
      act: {
        once: true,
        run: async (visit) => {
          const owner = ownerOf(visit)
          const { secret, previousUntilMs } = await webhookService.rotateSecret(owner, visit.cause, null)
          return secretView(
            'Your new secret',
            pathOf(owner.endpointId),
            secret,
            html`<p>Deliveries are also signed with the old one until ${timeText(isoTime(previousUntilMs))}.</p>`,
          )
        },
      },
    }),
    accountPage({
      path: '/console/webhooks/{id}/redeliver',
      name: 'redeliverWebhooksPage',
      summary: 'Sends missed deliveries of a webhook endpoint again',
      show: async (visit) => {
        const { id, url } = await findEndpoint(visit)
        const yesterday = isoTime(visit.nowMs - dayMs)
        return {
          title: 'Send again',
          body: html`<p>Use this after an outage. Deliveries to ${url} since this time that failed, were canceled or are pending are sent now, in the order of their events. Delivered ones are not sent again.</p>
${formOf(visit.form, {
  fields: [
    fieldOf(
      {
        name: 'since',
        label: 'Since, UTC',
        hint: 'At most 30 days ago, such as 2026-11-21 02:30.',
        maxlength: 19,
        value: yesterday.slice(0, 16).replace('T', ' '),
      },
      visit.form,
    ),
  ],
  submit: 'Send again',
  back: pathOf(id),
})}`,
          cliEquivalents: [
            `curl -X POST "$API/webhooks/${id}/redeliver?since=${yesterday.slice(0, 10)}" -H "X-API-Key: $KEY"`,
          ],
        }
      },
      act: {
        once: true,
        run: async (visit, typed) => {
          const owner = ownerOf(visit)
          const sinceMs = instantOf(typed.text('since'))
          if (sinceMs === undefined)
            return refused({ since: 'Type a day or a time in UTC, such as 2026-11-21 02:30.' })
          try {
            const { count, more } = await webhookService.redeliverSince(owner, sinceMs, visit.cause, null)
            const sent =
              count === 0
                ? 'There was nothing to send again.'
                : `${countText(count, 'delivery', 'deliveries')} sent again.`
            return goTo(
              pathOf(owner.endpointId),
              more ? `${sent} There are more. Repeat this to send them.` : sent,
            )
          } catch (error) {
            return refusedBy(error)
          }
        },
      },
    }),
    accountPage({
      path: '/console/webhooks/{id}/deliveries/{delivery}',
      name: 'showDelivery',
      summary: 'One delivery with its attempts',
      show: async (visit) => {
        const owner = ownerOf(visit)
        await webhookService.deliveriesReady(owner, null)
        const row = await showDelivery(db, owner.endpointId, visit.params.delivery ?? '')
        if (!row) throw refuse('not_found', 'no delivery of this webhook has this id')
        const delivery = deliveryRecord(row)
        return {
          title: `Delivery of ${delivery.event}`,
          actions: postButton(visit.form, {
            name: 'do',
            value: 'redeliver',
            label: delivery.status === 'pending' ? 'Send now' : 'Send again',
          }),
          body: html`${detailsOf([
            ['Delivery', html`${idText(delivery.id)} <small>sent in the header webhook-id</small>`],
            ['Subject', idText(delivery.resource)],
            ['State', deliveryState(delivery.status)],
            ['Endpoint', html`<a href="${pathOf(owner.endpointId)}">${idText(owner.endpointId)}</a>`],
            ['Queued', timeText(delivery.createdAt)],
            ['Next attempt', timeText(delivery.nextAttemptAt, 'none')],
            ['Finished', timeText(delivery.finishedAt, 'not yet')],
          ])}
<h2>Attempts</h2>
${tableOf({
  caption: 'Attempts, oldest first',
  rows: delivery.attempts,
  empty: 'There was no attempt yet.',
  columns: [
    {
      title: 'Attempt',
      head: true,
      cell: ({ round, attempt }) => (round === 1 ? attempt : `${attempt} of round ${round}`),
    },
    { title: 'Time', cell: ({ at }) => timeText(at) },
    { title: 'Status', cell: ({ status, error }) => status ?? error ?? 'none' },
    { title: 'Took, ms', number: true, cell: ({ latencyMs }) => latencyMs },
    { title: 'Response', cell: ({ answer }) => (answer === '' ? null : html`<code>${answer}</code>`) },
  ],
})}`,
          cliEquivalents: [
            `curl -X POST $API/webhooks/${owner.endpointId}/deliveries/${delivery.id}/redeliver -H "X-API-Key: $KEY"`,
          ],
        }
      },
      act: {
        once: true,
        run: async (visit) => {
          const owner = ownerOf(visit)
          try {
            await webhookService.redeliver(owner, visit.params.delivery ?? '', visit.cause, null)
            return goTo(pathOf(owner.endpointId), 'The delivery is sent again.')
          } catch (error) {
            return refusedBy(error)
          }
        },
      },
    }),
    accountPage({
      path: '/console/webhooks/{id}/delete',
      name: 'deleteWebhookPage',
      summary: 'Deletes a webhook endpoint',
      show: async (visit) => {
        const { id, url } = await findEndpoint(visit)
        return {
          title: 'Delete endpoint',
          body: html`<p>${url} receives no more events. Its secrets and pending deliveries are deleted.</p>
${formOf(visit.form, { submit: 'Delete endpoint', danger: true, back: pathOf(id), backLabel: 'Keep it' })}`,
          cliEquivalents: [`curl -X DELETE $API/webhooks/${id} -H "X-API-Key: $KEY"`],
        }
      },
      act: {
        run: async (visit) => {
          await webhookService.remove(ownerOf(visit), visit.cause)
          return goTo(root, 'The endpoint is deleted.')
        },
      },
    }),
  ]
}
