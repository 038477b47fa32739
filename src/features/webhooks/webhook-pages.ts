import { deliveriesAfter, showDelivery } from '../../../projections/webhooks.ts'
import { type DeliveryStatus, defaultEvents, webhookEvents } from '../../domain/webhooks/events.ts'
import { isoTime } from '../../kernel/clock.ts'
import { refuse } from '../../platform/http/errors.ts'
import { inRange } from '../../platform/http/query.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import { refusalOf } from '../../platform/ui/answer-page.ts'
import {
  choicesOf,
  emptyFormInput,
  type FormInput,
  fieldOf,
  keyField,
  type Problems,
  problemsOf,
} from '../../platform/ui/form.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  goTo,
  type PageOutcome,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import { filtersOf, pagedOf, pageRows, pagerOf, tableOf } from '../../platform/ui/table.ts'
import { afterOf, afterText, countText, idText, stateText, timeText } from '../../platform/ui/text.ts'
import { eventsField, subscriptionOf } from './route-fields.ts'
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

const deliveryBadges = { pending: 'warn', succeeded: 'good', abandoned: 'bad', canceled: 'off' } as const
const deliveryWords: Readonly<Record<DeliveryStatus, string>> = {
  pending: 'waits',
  succeeded: 'delivered',
  abandoned: 'failed',
  canceled: 'canceled',
}
const deliveryState = (status: DeliveryStatus): Html =>
  stateText(deliveryWords[status], deliveryBadges[status])

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
  typed: FormInput,
  problems: Problems,
  subscribed: Pick<WebhookRecord, 'url' | 'events'>,
): Html =>
  html`${fieldOf(
    {
      name: 'url',
      label: 'URL',
      hint: 'Begins with https:// and leads to a public host. It is kept sealed.',
      maxlength: 2_048,
      value: subscribed.url,
    },
    typed,
    problems,
  )}
${choicesOf(
  {
    name: 'events',
    legend: 'What it is told of',
    choices: webhookEvents.map((value) => ({ value, label: value })),
    chosen: subscribed.events,
  },
  typed,
  problems,
)}`

/** The chosen events, or the error. If all are still ticked, the subscription includes events of later versions too. */
const eventsOf = (typed: FormInput) => {
  const checkedEvents = typed.all('events')
  const read = eventsField.safeParse(checkedEvents)
  if (!read.success) return { problem: `It ${read.error.issues[0]?.message ?? 'cannot be read'}.` }
  const chosenEvents = subscriptionOf(read.data) ?? []
  return { events: String(chosenEvents) === String(defaultEvents) ? null : chosenEvents }
}

const secretView = (title: string, path: string, secret: string, more: Html) =>
  show({
    title,
    body: html`<p>Copy the signing secret now. It is shown this once.</p>
<code class="secret">${secret}</code>
${more}
<p class="acts"><a class="button" href="${path}">I have copied it</a></p>`,
    same: ['# check webhook-signature of each delivery with it: docs/webhooks.md'],
  })

/** A button that posts an action to a page. */
const doButton = (visit: AccountVisit, path: string, operation: string, label: string): Html =>
  html`<form method="post" action="${path}" class="inline">${keyField(visit.formKey)}<button name="do" value="${operation}">${label}</button></form>`

/** Webhook endpoints of an account and their deliveries. */
export const webhookPages = ({
  webhookService,
  db,
}: {
  readonly webhookService: WebhookService
  readonly db: Db
}): readonly ConsolePage[] => {
  const list = async ({ account }: AccountVisit) => {
    const { webhooks } = await webhookService.list(account.accountId, { limit: 100, offset: 0 }, null)
    return show({
      title: 'Webhooks',
      acts: html`<a class="button first" href="${root}/new">Register an endpoint</a>`,
      body: tableOf({
        caption: 'Webhook endpoints, newest first',
        rows: webhooks,
        empty: html`<p>No endpoint is told of anything yet. <a href="${root}/new">Register the first one</a></p>`,
        columns: [
          {
            title: 'Endpoint',
            head: true,
            cell: ({ id, url }) => html`<a href="${pathOf(id)}">${url}</a><br>${idText(id)}`,
          },
          { title: 'State', cell: endpointState },
          { title: 'Told of', cell: ({ events }) => countText(events.length, 'event') },
          { title: 'Since', cell: ({ createdAt }) => timeText(createdAt) },
        ],
      }),
      same: ['curl $API/webhooks -H "X-API-Key: $KEY"'],
    })
  }

  const newView = (visit: AccountVisit, typed: FormInput, problems: Problems) => ({
    title: 'Register an endpoint',
    body: html`${problemsOf(problems)}
<form method="post" action="${root}/new" class="stack" novalidate>
${keyField(visit.formKey)}
${endpointFields(typed, problems, { url: '', events: [...defaultEvents] })}
<div class="acts"><button class="first">Register the endpoint</button> <a href="${root}">Back</a></div>
</form>`,
    same: [
      `curl -X POST $API/webhooks -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '{"url":"https://example.com/hooks"}'`,
    ],
  })

  const register = async (visit: AccountVisit, typed: FormInput) => {
    const url = typed.text('url')
    const read = eventsOf(typed)
    const problems: Problems = {
      ...(url === '' && { url: 'Type the URL that is to be called.' }),
      ...(read.problem !== undefined && { events: read.problem }),
    }
    if (read.events === undefined || Object.keys(problems).length > 0)
      return refusedView(newView(visit, typed, problems))
    try {
      const registered = await webhookService.register(
        visit.account.accountId,
        { url, events: read.events },
        visit.cause,
      )
      return secretView(
        'Your endpoint',
        pathOf(registered.endpointId),
        registered.secret,
        html`<p>${registered.url} is told of ${countText((read.events ?? defaultEvents).length, 'event')}.</p>`,
      )
    } catch (error) {
      const { text, status } = refusalOf(error)
      return refusedView(newView(visit, typed, { [text.startsWith('Url ') ? 'url' : 'form']: text }), status)
    }
  }

  const statusOf = (text: string | null): DeliveryStatus | undefined =>
    deliveryStatuses.find((status) => status === text)

  const deliveriesOf = async (visit: AccountVisit): Promise<Html> => {
    const { query } = visit
    const owner = ownerOf(visit)
    const path = pathOf(owner.endpointId)
    const status = statusOf(query.get('status'))
    const before = query.get('before')
    const after = afterOf(before)
    await webhookService.deliveriesReady(owner, null)
    const found = await deliveriesAfter(db, owner.endpointId, { status, after, limit: pageRows + 1 })
    const { rows, next } = pagedOf(found.map(deliveryRecord), (row) => afterText(row.createdAt, row.id))
    const filter: Readonly<Record<string, string>> = status === undefined ? {} : { status }
    return html`${filtersOf(path, [
      {
        name: 'status',
        label: 'State',
        value: status ?? '',
        choices: [
          { value: '', label: 'any' },
          ...deliveryStatuses.map((value) => ({ value, label: deliveryWords[value] })),
        ],
      },
    ])}
${tableOf({
  caption: 'Deliveries of the last 30 days, newest first',
  rows,
  empty:
    status !== undefined || after !== null
      ? html`<p>No delivery fits. <a href="${path}">Show all</a></p>`
      : html`<p>Nothing was sent yet. A ping shows whether the receiver answers.</p>`,
  columns: [
    {
      title: 'Event',
      head: true,
      cell: ({ id, event }) => html`<a href="${path}/deliveries/${id}">${event}</a>`,
    },
    { title: 'About', cell: ({ resource }) => idText(resource) },
    { title: 'State', cell: ({ status: each }) => deliveryState(each) },
    { title: 'Attempts', number: true, cell: ({ attempts }) => String(attempts.length) },
    { title: 'Last', cell: lastAnswer },
    { title: 'Next', cell: ({ nextAttemptAt }) => timeText(nextAttemptAt, 'none') },
    { title: 'Queued', cell: ({ createdAt }) => timeText(createdAt) },
  ],
})}
${pagerOf(path, filter, { before: after === null ? null : before, next })}`
  }

  const endpointView = async (visit: AccountVisit, problems: Problems = {}) => {
    const webhook = await webhookService.find(ownerOf(visit), null)
    const path = pathOf(webhook.id)
    const active = webhook.status === 'active'
    return {
      title: 'Webhook endpoint',
      acts: html`${active ? doButton(visit, path, 'ping', 'Send a ping') : null}
<a class="button" href="${path}/change">Change it</a>
<a class="button" href="${path}/secret">Rotate its secret</a>
<a class="button" href="${path}/redeliver">Send again</a>
${doButton(visit, path, active ? 'disable' : 'enable', active ? 'Disable it' : 'Enable it')}
<a class="button danger" href="${path}/delete">Delete it</a>`,
      body: html`${problemsOf(problems)}
<dl class="facts">
<dt>URL</dt><dd>${webhook.url}</dd>
<dt>Endpoint</dt><dd>${idText(webhook.id)}</dd>
<dt>State</dt><dd>${endpointState(webhook)}</dd>
<dt>Told of</dt><dd>${webhook.events.join(', ')}</dd>
<dt>Since</dt><dd>${timeText(webhook.createdAt)}</dd>
</dl>
<h2>Deliveries</h2>
${await deliveriesOf(visit)}`,
      same: [
        `curl $API/webhooks/${webhook.id} -H "X-API-Key: $KEY"`,
        `curl $API/webhooks/${webhook.id}/deliveries -H "X-API-Key: $KEY"`,
        `curl -X POST $API/webhooks/${webhook.id}/test -H "X-API-Key: $KEY"`,
      ],
    }
  }

  /** Runs an action on the endpoint and redirects to its page with a message or the refusal. */
  const actOn = async (
    visit: AccountVisit,
    work: () => Promise<string>,
    refused: (problems: Problems, status: 400 | 409 | 429) => Promise<PageOutcome>,
  ): Promise<PageOutcome> => {
    try {
      return goTo(pathOf(ownerOf(visit).endpointId), await work())
    } catch (error) {
      const { text, status } = refusalOf(error)
      return refused({ form: text }, status)
    }
  }

  const changeEndpoint = (visit: AccountVisit, typed: FormInput) => {
    const owner = ownerOf(visit)
    const operation = typed.text('do')
    return actOn(
      visit,
      async () => {
        if (operation === 'ping') {
          const { deliveryId } = await webhookService.ping(owner, visit.cause)
          return `A ping is on its way as ${deliveryId}.`
        }
        if (operation !== 'enable' && operation !== 'disable')
          throw refuse('invalid_body', 'the form must say ping, enable or disable')
        const status = operation === 'enable' ? 'active' : 'disabled'
        await webhookService.change(owner, { status }, visit.cause, null)
        return status === 'active'
          ? 'The endpoint is active.'
          : 'The endpoint is disabled, and what waited is canceled.'
      },
      async (problems, status) => refusedView(await endpointView(visit, problems), status),
    )
  }

  const changeView = async (visit: AccountVisit, typed: FormInput, problems: Problems) => {
    const webhook = await webhookService.find(ownerOf(visit), null)
    const path = pathOf(webhook.id)
    return {
      title: 'Change the endpoint',
      body: html`${problemsOf(problems)}
<form method="post" action="${path}/change" class="stack" novalidate>
${endpointFields(typed, problems, webhook)}
<div class="acts"><button class="first">Change the endpoint</button> <a href="${path}">Back</a></div>
</form>`,
      same: [
        `curl -X PATCH $API/webhooks/${webhook.id} -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '{"events":["order.fulfilled"]}'`,
      ],
    }
  }

  const change = async (visit: AccountVisit, typed: FormInput) => {
    const owner = ownerOf(visit)
    const now = await webhookService.find(owner, null)
    const url = typed.text('url')
    const read = eventsOf(typed)
    if (read.events === undefined)
      return refusedView(await changeView(visit, typed, { events: read.problem }))
    const chosenEvents = read.events ?? defaultEvents
    return actOn(
      visit,
      async () => {
        await webhookService.change(
          owner,
          {
            url: url === now.url ? undefined : url,
            events: String(chosenEvents) === String(now.events) ? undefined : chosenEvents,
          },
          visit.cause,
          null,
        )
        return 'The endpoint is changed.'
      },
      async ({ form = '' }, status) =>
        refusedView(
          await changeView(visit, typed, { [form.startsWith('Url ') ? 'url' : 'form']: form }),
          status,
        ),
    )
  }

  const sinceView = async (visit: AccountVisit, typed: FormInput, problems: Problems) => {
    const { id, url } = await webhookService.find(ownerOf(visit), null)
    const path = pathOf(id)
    return {
      title: 'Send again',
      body: html`${problemsOf(problems)}
<p>After an outage: every delivery to ${url} of an event since then that failed, was canceled or waits is sent now, in the order of the events. What was delivered stays as it is.</p>
<form method="post" action="${path}/redeliver" class="stack" novalidate>
${keyField(visit.formKey)}
${fieldOf(
  {
    name: 'since',
    label: 'Since, UTC',
    hint: 'At most 30 days back, such as 2026-11-21 02:30.',
    maxlength: 19,
    value: isoTime(visit.nowMs - dayMs)
      .slice(0, 16)
      .replace('T', ' '),
  },
  typed,
  problems,
)}
<div class="acts"><button class="first">Send again</button> <a href="${path}">Back</a></div>
</form>`,
      same: [
        `curl -X POST "$API/webhooks/${id}/redeliver?since=${isoTime(visit.nowMs - dayMs).slice(0, 10)}" -H "X-API-Key: $KEY"`,
      ],
    }
  }

  const sendSince = async (visit: AccountVisit, typed: FormInput) => {
    const sinceMs = instantOf(typed.text('since'))
    if (sinceMs === undefined)
      return refusedView(
        await sinceView(visit, typed, { since: 'Type a day or a time in UTC, such as 2026-11-21 02:30.' }),
      )
    return actOn(
      visit,
      async () => {
        const { count, more } = await webhookService.redeliverSince(
          ownerOf(visit),
          sinceMs,
          visit.cause,
          null,
        )
        const sent =
          count === 0
            ? 'Nothing was to be sent again.'
            : `${countText(count, 'delivery', 'deliveries')} sent again.`
        return more ? `${sent} There are more: send again once more.` : sent
      },
      async (problems, status) => refusedView(await sinceView(visit, typed, problems), status),
    )
  }

  const deliveryView = async (visit: AccountVisit, problems: Problems = {}) => {
    const owner = ownerOf(visit)
    await webhookService.deliveriesReady(owner, null)
    const row = await showDelivery(db, owner.endpointId, visit.params.delivery ?? '')
    if (!row) throw refuse('not_found', 'no delivery of this webhook has this id')
    const delivery = deliveryRecord(row)
    const path = `${pathOf(owner.endpointId)}/deliveries/${delivery.id}`
    return {
      title: `Delivery of ${delivery.event}`,
      acts: doButton(
        visit,
        path,
        'redeliver',
        delivery.status === 'pending' ? 'Send it now' : 'Send it again',
      ),
      body: html`${problemsOf(problems)}
<dl class="facts">
<dt>Delivery</dt><dd>${idText(delivery.id)} <small>also the header webhook-id</small></dd>
<dt>About</dt><dd>${idText(delivery.resource)}</dd>
<dt>State</dt><dd>${deliveryState(delivery.status)}</dd>
<dt>Endpoint</dt><dd><a href="${pathOf(owner.endpointId)}">${idText(owner.endpointId)}</a></dd>
<dt>Queued</dt><dd>${timeText(delivery.createdAt)}</dd>
<dt>Next attempt</dt><dd>${timeText(delivery.nextAttemptAt, 'none')}</dd>
<dt>Finished</dt><dd>${timeText(delivery.finishedAt, 'not yet')}</dd>
</dl>
<h2>Attempts</h2>
${tableOf({
  caption: 'Attempts, oldest first',
  rows: delivery.attempts,
  empty: html`<p>It was not tried yet.</p>`,
  columns: [
    {
      title: 'Attempt',
      head: true,
      cell: ({ round, attempt }) => (round === 1 ? `${attempt}` : `${attempt} of round ${round}`),
    },
    { title: 'When', cell: ({ at }) => timeText(at) },
    { title: 'Answer', cell: ({ status, error }) => (status === null ? (error ?? 'none') : String(status)) },
    { title: 'Took, ms', number: true, cell: ({ latencyMs }) => String(latencyMs) },
    { title: 'What it said', cell: ({ answer }) => (answer === '' ? nothing : html`<code>${answer}</code>`) },
  ],
})}`,
      same: [
        `curl -X POST $API/webhooks/${owner.endpointId}/deliveries/${delivery.id}/redeliver -H "X-API-Key: $KEY"`,
      ],
    }
  }

  return [
    accountPage({
      path: '/console/webhooks',
      name: 'showWebhooks',
      summary: 'The webhook endpoints of the account',
      nav: { label: 'Webhooks' },
      show: list,
    }),
    accountPage({
      path: '/console/webhooks/new',
      name: 'newWebhook',
      summary: 'Registers a webhook endpoint',
      confirmed: true,
      show: async (visit) => show(newView(visit, emptyFormInput, {})),
      act: { once: true, run: register },
    }),
    accountPage({
      path: '/console/webhooks/{id}',
      name: 'showWebhook',
      summary: 'One webhook endpoint with its deliveries',
      show: async (visit) => show(await endpointView(visit)),
      act: { once: true, run: changeEndpoint },
    }),
    accountPage({
      path: '/console/webhooks/{id}/change',
      name: 'changeWebhook',
      summary: 'Changes the URL or the events of a webhook endpoint',
      show: async (visit) => show(await changeView(visit, emptyFormInput, {})),
      act: { run: change },
    }),
    accountPage({
      path: '/console/webhooks/{id}/secret',
      name: 'rotateWebhook',
      summary: 'Gives a webhook endpoint another signing secret',
      confirmed: true,
      show: async (visit) => {
        const { id, url } = await webhookService.find(ownerOf(visit), null)
        return show({
          title: 'Rotate the signing secret',
          body: html`<p>Deliveries to ${url} are signed with a new secret. For 24 hours they carry a signature of the former one too.</p>
<form method="post" action="${pathOf(id)}/secret">${keyField(visit.formKey)}<div class="acts"><button class="first">Rotate the secret</button> <a href="${pathOf(id)}">Back</a></div></form>`,
          same: [`curl -X POST $API/webhooks/${id}/rotate-secret -H "X-API-Key: $KEY"`],
        })
      },
      act: {
        once: true,
        run: async (visit) => {
          const owner = ownerOf(visit)
          const { secret, previousUntilMs } = await webhookService.rotateSecret(owner, visit.cause, null)
          return secretView(
            'The new secret',
            pathOf(owner.endpointId),
            secret,
            html`<p>The former one signs as well until ${timeText(isoTime(previousUntilMs))}.</p>`,
          )
        },
      },
    }),
    accountPage({
      path: '/console/webhooks/{id}/redeliver',
      name: 'redeliverWebhooksPage',
      summary: 'Sends again what a webhook endpoint missed',
      show: async (visit) => show(await sinceView(visit, emptyFormInput, {})),
      act: { once: true, run: sendSince },
    }),
    accountPage({
      path: '/console/webhooks/{id}/deliveries/{delivery}',
      name: 'showDelivery',
      summary: 'One delivery with its attempts',
      show: async (visit) => show(await deliveryView(visit)),
      act: {
        once: true,
        run: (visit) =>
          actOn(
            visit,
            async () => {
              await webhookService.redeliver(ownerOf(visit), visit.params.delivery ?? '', visit.cause, null)
              return 'The delivery is sent again.'
            },
            async (problems, status) => refusedView(await deliveryView(visit, problems), status),
          ),
      },
    }),
    accountPage({
      path: '/console/webhooks/{id}/delete',
      name: 'deleteWebhookPage',
      summary: 'Removes a webhook endpoint',
      show: async (visit) => {
        const { id, url } = await webhookService.find(ownerOf(visit), null)
        return show({
          title: 'Delete the endpoint',
          body: html`<p>${url} is told of nothing more. Its secrets go, and so does everything that waits to be sent to it.</p>
<form method="post" action="${pathOf(id)}/delete"><div class="acts"><button class="danger">Delete the endpoint</button> <a href="${pathOf(id)}">Keep it</a></div></form>`,
          same: [`curl -X DELETE $API/webhooks/${id} -H "X-API-Key: $KEY"`],
        })
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
