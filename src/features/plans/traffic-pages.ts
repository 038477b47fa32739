import type pg from 'pg'
import { remedyOf } from '../../domain/exits/connection-failures.ts'
import { isoTime } from '../../kernel/clock.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { listOf } from '../../platform/ui/list.ts'
import { type AccountVisit, accountPage, type ConsolePage } from '../../platform/ui/page.ts'
import { countColumn, idColumn, plotOf, tableOf, textColumn, timeColumn } from '../../platform/ui/table.ts'
import { bytesText, softText, timeText } from '../../platform/ui/text.ts'
import { backToPlan, type PlanFinder, planCall } from './plan-pages.ts'
import {
  cursorOf,
  hourRange,
  noError,
  parseCursor,
  type Range,
  type RequestRow,
  readRequests,
  readTraffic,
  type TrafficReport,
} from './traffic-records.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const longestMs = 31 * dayMs
const shownHosts = 10

const dayOf = (text: string | null): number | null => {
  const ms = /^\d{4}-\d\d-\d\d$/.test(text ?? '') ? Date.parse(text ?? '') : Number.NaN
  return Number.isNaN(ms) ? null : ms
}

/** The chosen days, or the last 24 hours; at most 31 days. */
const rangeOf = ({ query, nowMs }: Pick<AccountVisit, 'query' | 'nowMs'>): Range => {
  const lastDay = dayOf(query.get('to'))
  const toMs = lastDay === null ? nowMs : lastDay + dayMs
  const fromMs = dayOf(query.get('from')) ?? toMs - dayMs
  return hourRange({ fromMs: Math.max(Math.min(fromMs, toMs - hourMs), toMs - longestMs), toMs })
}

type UsedRow = {
  readonly name: Html | string
  readonly bytes: number
  readonly requests: number | null
  readonly failures: number | null
}

/** The hosts with the most traffic, then the rest, so that the last row is the sum of the others. */
const rowsOf = ({ groups, otherGroups, merged, unrecordedBytes, meteredBytes }: TrafficReport): UsedRow[] => {
  const rowOf = (name: Html | string, sum: TrafficReport['merged']): UsedRow => ({
    name,
    bytes: sum.bytesUp + sum.bytesDown,
    requests: sum.requests,
    failures: sum.failures,
  })
  return [
    ...groups.map((group) => rowOf(group.value ?? softText('no recorded host'), group)),
    rowOf(softText('all other hosts'), otherGroups),
    rowOf(softText('recorded without details'), merged),
    { name: softText('in progress or not recorded'), bytes: unrecordedBytes, requests: null, failures: null },
    { name: html`<strong>metered</strong>`, bytes: meteredBytes, requests: null, failures: null },
  ].filter(({ bytes, requests }, at, all) => bytes !== 0 || (requests ?? 0) > 0 || at === all.length - 1)
}

const plotOfHours = ({ groups }: TrafficReport, { fromMs, toMs }: Range): Html => {
  const bytes = new Map(groups.map(({ value, bytesUp, bytesDown }) => [value, bytesUp + bytesDown]))
  const hours = Array.from({ length: (toMs - fromMs) / hourMs }, (_, at) => isoTime(fromMs + at * hourMs))
  return plotOf({
    title: 'Recorded traffic by hour',
    bars: hours.map((hour) => ({
      label: `${hour.slice(5, 10)} ${hour.slice(11, 16)}`,
      value: Math.max(0, bytes.get(hour) ?? 0),
    })),
    write: bytesText,
    table: 'Hour (UTC)',
  })
}

const reasonText = (reason: string | null): string | null =>
  reason === 'in_progress' ? 'in progress' : reason

/** What used the traffic of a plan: its hours, hosts, failures and requests. */
export const trafficPages = ({
  planFinder: { planOf, nameOf },
  pool,
  recordDays,
}: {
  readonly planFinder: PlanFinder
  readonly pool: pg.Pool
  readonly recordDays: number
}): readonly ConsolePage[] => [
  accountPage({
    path: '/console/plans/{id}/traffic',
    name: 'showPlanTraffic',
    crumb: 'Traffic',
    summary: 'What used the traffic of a plan',
    show: async (visit) => {
      const plan = await planOf(visit)
      const { planId } = plan
      const range = rangeOf(visit)
      const [hosts, hours, { body, file, fileLink }] = await Promise.all([
        readTraffic(pool, planId, range, 'host', shownHosts),
        readTraffic(pool, planId, range, 'hour'),
        listOf(visit, {
          caption: 'Requests, newest first',
          filters: {
            host: { label: 'Host' },
            country: { label: 'Exit country', hint: 'us' },
            reason: { label: 'Reason', hint: noError },
          },
          search: 'Request id',
          dated: true,
          file: 'requests',
          load: (_, { after, limit, search, from, until, host, country, reason }) =>
            readRequests(
              pool,
              planId,
              {
                host,
                country,
                reason,
                requestId: search || undefined,
                sinceMs: from === null ? undefined : Date.parse(from),
                untilMs: until === null ? undefined : Date.parse(until),
              },
              { after, limit },
            ),
          keyOf: cursorOf,
          parseKey: parseCursor,
          columns: () => [
            {
              title: 'Target',
              head: true,
              value: ({ host, port }: RequestRow) =>
                host === null ? null : port === null ? host : `${host}:${port}`,
              cell: ({ host, port, protocol }) =>
                host === null ? softText(protocol) : port === null ? host : `${host}:${port}`,
            },
            timeColumn('Ended', ({ endedAt }: RequestRow) => endedAt),
            textColumn('Exit', ({ country }: RequestRow) => country, { none: 'none' }),
            {
              title: 'Up',
              number: true,
              value: ({ bytesUp }) => bytesUp,
              cell: ({ bytesUp }) => bytesText(bytesUp),
            },
            {
              title: 'Down',
              number: true,
              value: ({ bytesDown }) => bytesDown,
              cell: ({ bytesDown }) => bytesText(bytesDown),
            },
            countColumn('Time, ms', ({ durationMs }: RequestRow) => durationMs, { place: 'minor' }),
            textColumn('Reason', ({ reason }: RequestRow) => reasonText(reason), { none: 'done' }),
            textColumn('Line', ({ line }: RequestRow) => line, { none: 'whitelist', place: 'minor' }),
            idColumn('Request id', ({ requestId }: RequestRow) => requestId),
          ],
          empty:
            recordDays === 0
              ? 'The operator has turned off the records of requests.'
              : 'No request is recorded yet.',
        }),
      ])
      if (file !== null) return file
      const query = new URLSearchParams({ since: isoTime(range.fromMs), until: isoTime(range.toMs) })
      return {
        title: `Traffic of ${nameOf(plan)}`,
        actions: html`${backToPlan(plan)}${fileLink}`,
        body: html`<p>From ${timeText(isoTime(range.fromMs))} to ${timeText(isoTime(range.toMs))}. ${
          recordDays === 0
            ? nothing
            : html`Requests are recorded for ${recordDays} days. The last seconds may be missing.`
        }</p>
<h2>By hour</h2>
${plotOfHours(hours, range)}
<h2>Hosts with the most traffic</h2>
${tableOf({
  caption: 'Traffic by host, most traffic first',
  rows: rowsOf(hosts),
  columns: [
    { title: 'Host', head: true, cell: ({ name }) => name },
    { title: 'Traffic', number: true, place: 'lead', cell: ({ bytes }) => bytesText(bytes) },
    { title: 'Requests', number: true, cell: ({ requests }) => requests },
    { title: 'Failures', number: true, cell: ({ failures }) => failures },
  ],
})}
<h2>Failures by reason</h2>
${tableOf({
  caption: 'Failures by reason, most frequent first',
  rows: hosts.reasons,
  empty: 'No request failed.',
  columns: [
    { title: 'Reason', head: true, cell: ({ reason }) => html`<code>${reason}</code>` },
    { title: 'Count', number: true, cell: ({ count }) => count },
    { title: 'Solution', cell: ({ reason }) => remedyOf(reason) },
  ],
})}
<h2>Requests</h2>
${body}`,
        cliEquivalents: [
          `curl "${planCall(plan, '/traffic')}?group_by=host&${query}" -H "X-API-Key: $KEY"`,
          `curl "${planCall(plan, '/requests')}?limit=100" -H "X-API-Key: $KEY"`,
          `bin/farebox plans requests ${planId} --limit 100`,
        ],
      }
    },
  }),
]
