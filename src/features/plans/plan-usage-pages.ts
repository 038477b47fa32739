import type pg from 'pg'
import { isoTime } from '../../kernel/clock.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { plotOf, tableOf } from '../../platform/ui/table.ts'
import { bytesText, countText, timeText } from '../../platform/ui/text.ts'
import { type Bucket, readUsage, type UsageBucket } from './traffic-usage.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const shownHosts = 20

const spans = {
  day: { label: '24 hours', ms: dayMs, bucket: 'hour' },
  week: { label: '7 days', ms: 7 * dayMs, bucket: 'hour' },
  month: { label: '30 days', ms: 30 * dayMs, bucket: 'day' },
} as const satisfies Readonly<
  Record<string, { readonly label: string; readonly ms: number; readonly bucket: Bucket }>
>
type Span = keyof typeof spans

const spanOf = (text: string | null): Span =>
  text !== null && Object.hasOwn(spans, text) ? (text as Span) : 'day'

const emptyUsage = { bytesUp: 0, bytesDown: 0, connections: 0, failures: 0 }

/** Every bucket of a time range, including empty ones. */
const withEmptyBuckets = (
  storedBuckets: readonly UsageBucket[],
  { fromMs, toMs, stepMs }: { readonly fromMs: number; readonly toMs: number; readonly stepMs: number },
): readonly UsageBucket[] => {
  const storedByTime = new Map(storedBuckets.map((bucket) => [bucket.ts, bucket]))
  const result: UsageBucket[] = []
  for (let at = fromMs; at < toMs; at += stepMs) {
    const ts = isoTime(at)
    result.push(storedByTime.get(ts) ?? { ts, ...emptyUsage })
  }
  return result
}

/** The usage of a plan: traffic, connections, hosts, and reasons of failed connections. */
export const usageOf = async (
  pool: pg.Pool,
  {
    planId,
    spanText,
    nowMs,
  }: { readonly planId: string; readonly spanText: string | null; readonly nowMs: number },
): Promise<{ readonly shown: Html; readonly call: string }> => {
  const span = spanOf(spanText)
  const { ms, bucket } = spans[span]
  const stepMs = bucket === 'hour' ? hourMs : dayMs
  // Whole buckets, including the current one.
  const toMs = (Math.floor(nowMs / stepMs) + 1) * stepMs
  const range = { fromMs: toMs - ms, toMs }
  const rangeBefore = { fromMs: range.fromMs - ms, toMs: range.fromMs }
  const [usage, usageBefore] = await Promise.all([
    readUsage(pool, planId, range, { bucket, hosts: shownHosts }),
    readUsage(pool, planId, rangeBefore, { bucket, hosts: 0 }),
  ])
  const buckets = withEmptyBuckets(usage.buckets, { ...range, stepMs })
  const bucketsBefore = withEmptyBuckets(usageBefore.buckets, { ...rangeBefore, stepMs })
  const nameOf = ({ ts }: UsageBucket): string =>
    bucket === 'hour' ? `${ts.slice(5, 10)} ${ts.slice(11, 16)}` : ts.slice(0, 10)
  const sum = (pick: (each: UsageBucket) => number): number =>
    buckets.reduce((total, each) => total + pick(each), 0)
  const bytes = (each: UsageBucket): number => each.bytesUp + each.bytesDown
  const activeBuckets = buckets.filter((each) => bytes(each) + each.connections + each.failures > 0)
  const links = Object.entries(spans).map(([name, { label }]) =>
    name === span
      ? html`<strong>${label}</strong> `
      : html`<a href="/console/plans/${planId}?usage=${name}#usage">${label}</a> `,
  )
  const failures = sum((each) => each.failures)
  const firstDay = isoTime(range.fromMs).slice(0, 10)
  const shown = html`<h2 id="usage">Usage</h2>
<p>${links}</p>
<p>${bytesText(sum(bytes))}, ${countText(
    sum(({ connections }) => connections),
    'connection',
  )}, ${countText(failures, 'failure')}. The last seconds may be missing.</p>
${
  activeBuckets.length === 0
    ? html`<div class="empty"><p>There was no traffic in this time.</p></div>`
    : html`<h3>Traffic by ${bucket}</h3>
${plotOf({
  title: `Traffic by ${bucket}`,
  bars: buckets.map((each) => ({ label: nameOf(each), value: bytes(each) })),
  write: bytesText,
  before: { label: 'the period before', values: bucketsBefore.map(bytes) },
})}
${
  failures === 0
    ? nothing
    : html`<h3>Failures by ${bucket}</h3>
${plotOf({
  title: `Failures by ${bucket}`,
  bars: buckets.map((each) => ({ label: nameOf(each), value: each.failures })),
  write: String,
})}`
}
<details><summary>Show as table</summary>
${tableOf({
  caption: `Usage by ${bucket}, oldest first`,
  rows: activeBuckets,
  columns: [
    { title: bucket === 'hour' ? 'Hour' : 'Day', head: true, cell: ({ ts }) => timeText(ts) },
    { title: 'Up', number: true, cell: ({ bytesUp }) => bytesText(bytesUp) },
    { title: 'Down', number: true, cell: ({ bytesDown }) => bytesText(bytesDown) },
    { title: 'Connections', number: true, cell: ({ connections }) => String(connections) },
    { title: 'Failures', number: true, cell: ({ failures }) => String(failures) },
  ],
})}</details>`
}
<h3>Failed connections</h3>
${tableOf({
  caption: 'Failures by reason, most frequent first',
  rows: usage.failures,
  empty: 'No connection failed.',
  columns: [
    { title: 'Reason', head: true, cell: ({ reason }) => html`<code>${reason}</code>` },
    { title: 'Count', number: true, cell: ({ count }) => String(count) },
    { title: 'Solution', cell: ({ howToFix }) => howToFix },
  ],
})}
<h3>Hosts</h3>
${
  usage.countsHosts
    ? html`<p class="soft">Counted by whole days (UTC), since ${firstDay}.</p>
${tableOf({
  caption: 'Hosts with the most traffic, over whole days',
  rows: usage.hosts,
  empty: 'None yet.',
  columns: [
    { title: 'Host', head: true, cell: ({ host }) => (host === '*' ? 'all others' : host) },
    { title: 'Traffic', number: true, cell: (host) => bytesText(host.bytes) },
    { title: 'Connections', number: true, cell: ({ connections }) => String(connections) },
  ],
})}`
    : html`<p>Hosts of this plan are not counted.</p>`
}`
  const query = new URLSearchParams({ bucket, from: isoTime(range.fromMs), to: isoTime(range.toMs) })
  return { shown, call: `curl "$API/plans/${planId}/usage?${query}" -H "X-API-Key: $KEY"` }
}
