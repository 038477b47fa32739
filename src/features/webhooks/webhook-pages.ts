import type pg from 'pg'
import { deliveriesAfter, failingEndpoints, showDelivery } from '../../../projections/webhooks.ts'
import {
  type DeliveryEvent,
  type DeliveryStatus,
  defaultEvents,
  webhookEvents,
} from '../../domain/webhooks/events.ts'
import { isoTime } from '../../kernel/clock.ts'
import { deliveryStream } from '../../kernel/streams.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import { inRange } from '../../platform/http/query.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import { refusalOf } from '../../platform/ui/answer-page.ts'
import { postButton } from '../../platform/ui/form.ts'
import { checkboxField, formPage, pageForm, textField } from '../../platform/ui/form-page.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { labelled, listOf, listPage } from '../../platform/ui/list.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  type FormRefusal,
  goTo,
  operatorPage,
  refused,
  refusedBy,
} from '../../platform/ui/page.ts'
import {
  type Column,
  countColumn,
  detailsOf,
  idColumn,
  nameColumn,
  stateColumn,
  tableOf,
  textColumn,
  timeColumn,
} from '../../platform/ui/table.ts'
import {
  afterText,
  type BadgeTone,
  buttonLink,
  countText,
  idText,
  queryText,
  stateText,
  timeText,
} from '../../platform/ui/text.ts'
import { emailsOf } from '../accounts/index.ts'
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
/** The largest number of failing endpoints on the page of operators. */
const maxFailing = 100

const pathOf = (id: string): string => `${root}/${id}`
const ownerOf = ({ account, params }: AccountVisit) => ({
  accountId: account.accountId,
  endpointId: params.id ?? '',
})

const endpointState = ({ status, disabledReason, failingSince }: WebhookRecord): Html => {
  if (status === 'active' && failingSince !== null)
    return html`${stateText('failing', 'bad')} since ${timeText(failingSince)}`
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
const deliveryLabels = labelled(deliveryStatuses, { succeeded: 'delivered', abandoned: 'failed' })
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

const endpointFields = (subscribed: Pick<WebhookRecord, 'url' | 'events'>) => ({
  url: textField({
    label: 'URL',
    hint: 'An https:// URL of a public host. It is stored encrypted.',
    maxlength: 2_048,
    value: subscribed.url,
    parse: (text) => text || { problem: 'Type the URL of the receiver.' },
  }),
  events: checkboxField({
    label: 'Events',
    choices: webhookEvents.map((value) => ({ value, label: value })),
    ticked: subscribed.events,
    parse: (texts) => {
      const read = eventsField.safeParse(texts)
      return read.success
        ? (subscriptionOf(read.data) ?? [])
        : { problem: `It ${read.error.issues[0]?.message ?? 'cannot be read'}.` }
    },
  }),
})

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
  pool,
  log,
}: {
  readonly pool: pg.Pool
  readonly log: Pick<EventLog, 'readStream'>
  readonly webhookService: WebhookService
  readonly db: Db
}): readonly ConsolePage[] => {
  /** The data of a delivery, as it is in the log. */
  const payloadOf = async (endpointId: string, { event, resource }: DeliveryRecord): Promise<unknown> => {
    for await (const stored of log.readStream(deliveryStream(endpointId, event, resource))) {
      const enqueued = decode(stored) as DeliveryEvent
      if (enqueued.type === 'WebhookEnqueued') return enqueued.data.data
    }
    return null
  }

  const findEndpoint = (visit: AccountVisit) => webhookService.find(ownerOf(visit), null)

  const deliveriesOf = async (visit: AccountVisit) => {
    const owner = ownerOf(visit)
    const path = pathOf(owner.endpointId)
    await webhookService.deliveriesReady(owner, null)
    return listOf(visit, {
      caption: 'Deliveries of the last 30 days, newest first',
      filters: { status: { label: 'State', choices: deliveryLabels } },
      search: 'Event or id',
      orderedBy: 'Queued',
      file: 'deliveries',
      load: async (_visit, page) => (await deliveriesAfter(db, owner.endpointId, page)).map(deliveryRecord),
      keyOf: ({ createdAt, id }) => afterText(createdAt, id),
      empty: 'Nothing was sent yet. Send a ping to test the receiver.',
      columns: (_) => [
        nameColumn('Event', ({ id, event }) => ({ text: event, href: `${path}/deliveries/${id}` })),
        stateColumn('State', ({ status }) => deliveryBadges[status]),
        textColumn('Last attempt', lastAnswer, { place: 'lead' }),
        countColumn('Attempts', ({ attempts }) => attempts.length),
        timeColumn('Next attempt', ({ nextAttemptAt }) => nextAttemptAt, { none: 'none' }),
        timeColumn('Queued', ({ createdAt }) => createdAt, { place: 'plain' }),
        idColumn('Subject', ({ resource }) => resource),
        idColumn('Delivery id', ({ id }) => id, { place: 'file' }),
      ],
    })
  }

  return [
    listPage(accountPage, {
      path: '/console/webhooks',
      name: 'showWebhooks',
      summary: 'The webhook endpoints of the account',
      title: 'Webhooks',
      actions: buttonLink(`${root}/new`, 'Register endpoint', 'first'),
      caption: 'Webhook endpoints, newest first',
      rows: async ({ account }) =>
        (await webhookService.list(account.accountId, { limit: 100, offset: 0 }, null)).webhooks,
      columns: (_): readonly Column<WebhookRecord>[] => [
        nameColumn('Endpoint', ({ id, url }) => ({ text: url, href: pathOf(id) })),
        { title: 'State', place: 'plain', cell: endpointState },
        textColumn('Events', ({ events }) => countText(events.length, 'event'), { place: 'plain' }),
        timeColumn('Since', ({ createdAt }) => createdAt, { place: 'plain' }),
        idColumn('Endpoint id', ({ id }) => id),
      ],
      empty: html`<p>The service can send each event of your orders and deposits to your server.</p><p>${buttonLink(`${root}/new`, 'Register endpoint', 'first')}</p>`,
      cliEquivalents: () => ['curl $API/webhooks -H "X-API-Key: $KEY"'],
    }),
    formPage(accountPage, {
      path: '/console/webhooks/new',
      name: 'newWebhook',
      summary: 'Registers a webhook endpoint',
      confirmed: true,
      act: { once: true },
      form: ({ account, cause }) =>
        pageForm({
          title: 'Register endpoint',
          fields: endpointFields({ url: '', events: [...defaultEvents] }),
          submit: 'Register endpoint',
          back: root,
          cliEquivalents: [
            `curl -X POST $API/webhooks -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '{"url":"https://example.com/hooks"}'`,
          ],
          run: async ({ url, events }) => {
            // If the default events are ticked, the subscription includes events of later versions too.
            const subscription = String(events) === String(defaultEvents) ? null : events
            const registered = await webhookService
              .register(account.accountId, { url, events: subscription }, cause)
              .catch(refusedEndpoint)
            if ('kind' in registered) return registered
            return secretView(
              'Your endpoint',
              pathOf(registered.endpointId),
              registered.secret,
              html`<p>${registered.url} receives ${countText(events.length, 'event')}.</p>`,
            )
          },
        }),
    }),
    accountPage({
      path: '/console/webhooks/{id}',
      name: 'showWebhook',
      crumb: 'Endpoint',
      summary: 'One webhook endpoint with its deliveries',
      show: async (visit) => {
        const webhook = await findEndpoint(visit)
        const deliveries = await deliveriesOf(visit)
        if (deliveries.file !== null) return deliveries.file
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
${deliveries.body}
${deliveries.fileLink}`,
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
    formPage(accountPage, {
      path: '/console/webhooks/{id}/change',
      name: 'changeWebhook',
      summary: 'Changes the URL or the events of a webhook endpoint',
      form: async (visit) => {
        const webhook = await findEndpoint(visit)
        return pageForm({
          title: 'Change endpoint',
          fields: endpointFields(webhook),
          submit: 'Change endpoint',
          back: pathOf(webhook.id),
          cliEquivalents: [
            `curl -X PATCH $API/webhooks/${webhook.id} -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '{"events":["order.fulfilled"]}'`,
          ],
          run: async ({ url, events }) => {
            const changes = {
              url: url === webhook.url ? undefined : url,
              events: String(events) === String(webhook.events) ? undefined : events,
            }
            try {
              await webhookService.change(ownerOf(visit), changes, visit.cause, null)
              return goTo(pathOf(webhook.id), 'The endpoint is changed.')
            } catch (error) {
              return refusedEndpoint(error)
            }
          },
        })
      },
    }),
    formPage(accountPage, {
      path: '/console/webhooks/{id}/secret',
      name: 'rotateWebhook',
      summary: 'Rotates the signing secret of a webhook endpoint',
      confirmed: true,
      act: { once: true },
      form: async (visit) => {
        const { id, url } = await findEndpoint(visit)
        return pageForm({
          title: 'Rotate signing secret',
          intro: html`<p>Deliveries to ${url} are signed with a new secret. For 24 hours they also carry a signature of the old one.</p>`,
          submit: 'Rotate secret',
          back: pathOf(id),
          cliEquivalents: [`curl -X POST $API/webhooks/${id}/rotate-secret -H "X-API-Key: $KEY"`],
          run: async () => {
            const { secret, previousUntilMs } = await webhookService.rotateSecret(
              ownerOf(visit),
              visit.cause,
              null,
            )
            return secretView(
              'Your new secret',
              pathOf(id),
              secret,
              html`<p>Deliveries are also signed with the old one until ${timeText(isoTime(previousUntilMs))}.</p>`,
            )
          },
        })
      },
    }),
    formPage(accountPage, {
      path: '/console/webhooks/{id}/redeliver',
      name: 'redeliverWebhooksPage',
      summary: 'Sends missed deliveries of a webhook endpoint again',
      act: { once: true },
      form: async (visit) => {
        const { id, url } = await findEndpoint(visit)
        const yesterday = isoTime(visit.nowMs - dayMs)
        const ago = (ms: number): string =>
          isoTime(visit.nowMs - ms)
            .slice(0, 16)
            .replace('T', ' ')
        const preset = (label: string, ms: number): Html =>
          html`<a href="${visit.path}${queryText({ since: ago(ms) })}">${label}</a> `
        return pageForm({
          title: 'Send again',
          intro: html`<p>Use this after an outage. Deliveries to ${url} since this time that failed, were canceled or are pending are sent now, in the order of their events. Delivered ones are not sent again.</p>
<p class="presets">${preset('Last hour', dayMs / 24)}${preset('Last day', dayMs)}${preset('Last 7 days', 7 * dayMs)}${preset('Last 30 days', 30 * dayMs - 3_600_000)}</p>`,
          fields: {
            since: textField({
              label: 'Since, UTC',
              hint: 'At most 30 days ago, such as 2026-11-21 02:30.',
              maxlength: 19,
              value: visit.query.get('since')?.slice(0, 19) ?? ago(dayMs),
              parse: (text) =>
                instantOf(text) ?? { problem: 'Type a day or a time in UTC, such as 2026-11-21 02:30.' },
            }),
          },
          submit: 'Send again',
          back: pathOf(id),
          cliEquivalents: [
            `curl -X POST "$API/webhooks/${id}/redeliver?since=${yesterday.slice(0, 10)}" -H "X-API-Key: $KEY"`,
          ],
          run: async ({ since }) => {
            const owner = ownerOf(visit)
            const { count, more } = await webhookService.redeliverSince(owner, since, visit.cause, null)
            const sent =
              count === 0
                ? 'There was nothing to send again.'
                : `${countText(count, 'delivery', 'deliveries')} sent again.`
            return goTo(pathOf(id), more ? `${sent} There are more. Repeat this to send them.` : sent)
          },
        })
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
        const data = await payloadOf(owner.endpointId, delivery)
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
            ['Endpoint', idText(owner.endpointId, pathOf(owner.endpointId))],
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
})}
<h2>Request</h2>
<pre class="result" tabindex="0">Content-Type: application/json
X-Service-Event: ${delivery.event}
X-Service-Timestamp: the time of the attempt
X-Service-Signature: hexadecimal HMAC of the body
webhook-id: ${delivery.id}
webhook-timestamp: the time of the attempt in seconds
webhook-signature: v1 and the base64 signature

${JSON.stringify({ event: delivery.event, created: 'the time of the attempt', resource: delivery.resource, data }, null, 2)}</pre>`,
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
    formPage(accountPage, {
      path: '/console/webhooks/{id}/delete',
      name: 'deleteWebhookPage',
      summary: 'Deletes a webhook endpoint',
      form: async (visit) => {
        const { id, url } = await findEndpoint(visit)
        return pageForm({
          title: 'Delete endpoint',
          intro: html`<p>${url} receives no more events. Its secrets and pending deliveries are deleted.</p>`,
          submit: 'Delete endpoint',
          danger: true,
          back: pathOf(id),
          backLabel: 'Keep it',
          cliEquivalents: [`curl -X DELETE $API/webhooks/${id} -H "X-API-Key: $KEY"`],
          run: async () => {
            await webhookService.remove(ownerOf(visit), visit.cause)
            return goTo(root, 'The endpoint is deleted.')
          },
        })
      },
    }),
    listPage(operatorPage, {
      path: '/console/operator/webhooks',
      name: 'showFailingWebhooks',
      summary: 'Webhook endpoints of all accounts that fail or were disabled',
      title: 'Failing webhooks',
      caption: 'Failing and disabled endpoints, newest first',
      rows: async () => {
        const endpoints = await failingEndpoints(db, null, maxFailing)
        const emails = await emailsOf(
          pool,
          endpoints.map(({ accountId }) => accountId),
        )
        return endpoints.map((endpoint) => ({ ...endpoint, email: emails.get(endpoint.accountId) ?? null }))
      },
      columns: (_) => [
        nameColumn('Account', ({ accountId, email }) => ({
          text: email ?? accountId,
          href: `/console/operator/accounts/${accountId}`,
        })),
        stateColumn('State', ({ disabledReason }) =>
          disabledReason === null ? ['failing', 'warn'] : ['disabled', 'bad'],
        ),
        textColumn('Last error', ({ lastError }) => lastError, { none: 'unknown' }),
        timeColumn('Failing since', ({ failingSince }) => failingSince, { none: 'unknown' }),
        timeColumn('Next attempt', ({ nextAttemptAt }) => nextAttemptAt, { none: 'none' }),
        idColumn('Endpoint', ({ endpointId }) => endpointId),
      ],
      empty: 'All endpoints receive their webhooks.',
      cliEquivalents: () => ['bin/farebox webhooks list'],
    }),
  ]
}
