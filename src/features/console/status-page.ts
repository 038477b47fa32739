import type pg from 'pg'
import type { Family } from '../../domain/shared/order-terms.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { withTimeout } from '../../kernel/every.ts'
import { type Probe, probeOutcome } from '../../platform/http/health.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { type ConsolePage, fileOf, openPage } from '../../platform/ui/page.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { stateText, timeText } from '../../platform/ui/text.ts'
import { depthOf } from '../../platform/work/queue-operations.ts'
import { readSilentProcesses } from '../../platform/work/worker-runs.ts'
import type { LocationsByCountry } from '../exits/index.ts'
import type { LiveList } from '../free-list/index.ts'
import { deliveryQueue } from '../webhooks/index.ts'

/** The state of a part of the service: it works, is late, does not work, or has no result yet. */
type PartState = 'up' | 'late' | 'down' | 'new'

/** A part of the service that customers see. `about` says what it does, never how. */
type ServicePart = {
  readonly name: string
  readonly about: string
  /** An error means that the part is down. */
  state(): Promise<PartState>
}

/** A delivery that is due for longer than this is late, milliseconds. */
const lateDeliveryMs = 60_000
/**
 * A list that is older than this is late, milliseconds. Its endpoints are checked at least every quarter of an hour.
 */
const maxListAgeMs = 60 * 60_000

/** The parts of the service that customers see, and how the state of each is found. */
export const serviceParts = ({
  pool,
  clock,
  probes,
  locations,
  list,
  liveScrapers,
}: {
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly probes: readonly Probe[]
  readonly locations: (family: Family | null) => LocationsByCountry
  readonly list: LiveList
  /** The number of scrapers that have a serving provider now. */
  readonly liveScrapers: () => number
}): readonly ServicePart[] => {
  const allPass = async (part: Probe['part']): Promise<boolean> => {
    const counting = probes.filter((probe) => !probe.note && probe.part === part)
    return (await Promise.all(counting.map(probeOutcome))).every((outcome) => outcome === 'ok')
  }
  return [
    {
      name: 'Orders',
      about: 'Orders, payments and the API.',
      state: async () => ((await allPass(undefined)) ? 'up' : 'down'),
    },
    {
      name: 'Gateway',
      about: 'Connections of plans through exits.',
      state: async () =>
        locations(null).size > 0 &&
        (await allPass('gateway')) &&
        (await readSilentProcesses(pool)).every(({ process }) => process !== 'gateway')
          ? 'up'
          : 'down',
    },
    {
      name: 'Webhooks',
      about: 'Deliveries to webhook endpoints.',
      state: async () => {
        const { oldestDueAt } = await depthOf(pool, deliveryQueue, clock())
        return oldestDueAt !== null && clock() - Date.parse(oldestDueAt) > lateDeliveryMs ? 'late' : 'up'
      },
    },
    {
      name: 'Scrapers',
      about: 'Scraper calls.',
      state: async () => (liveScrapers() > 0 ? 'up' : 'down'),
    },
    {
      name: 'Free proxies',
      about: 'The regularly checked list of public proxies.',
      state: async () => {
        const { updatedAt } = (await list.current()).page({}, 1)
        if (updatedAt === null) return 'new'
        return clock() - Date.parse(updatedAt) > maxListAgeMs ? 'late' : 'up'
      },
    },
  ]
}

/** Results are cached for this time, milliseconds. */
const cacheMs = 5_000
/** A part whose state does not arrive within this time is down, milliseconds. */
const answerMs = 3_000

type CheckedPart = { readonly name: string; readonly about: string; readonly state: PartState }
type Checked = { readonly atMs: number; readonly parts: readonly CheckedPart[] }

const stateOf = async (part: ServicePart): Promise<CheckedPart> => {
  const { name, about } = part
  try {
    return { name, about, state: await withTimeout(part.state(), answerMs, () => new Error('no answer')) }
  } catch {
    // Only operators see the cause, in /readyz and in the log.
    return { name, about, state: 'down' }
  }
}

const stateTexts: Readonly<Record<PartState, Html>> = {
  up: stateText('works', 'good'),
  late: stateText('late', 'warn'),
  down: stateText('does not work', 'bad'),
  new: stateText('no data yet', 'off'),
}

const namesInState = (parts: readonly CheckedPart[], state: PartState): string =>
  parts
    .filter((part) => part.state === state)
    .map(({ name }) => name)
    .join(', ')

const sentenceOf = (parts: readonly CheckedPart[]): string => {
  const [down, late] = [namesInState(parts, 'down'), namesInState(parts, 'late')]
  if (down !== '') return `Not working: ${down}.`
  return late === '' ? 'Everything works.' : `Everything works; late: ${late}.`
}

/** The worst state of the parts. A part without a result yet does not count. */
const overallState = (parts: readonly CheckedPart[]): PartState =>
  (['down', 'late'] as const).find((state) => namesInState(parts, state) !== '') ?? 'up'

/** The public pages with the current state of the service. */
export const statusPages = ({
  parts: allParts,
  clock,
}: {
  readonly parts: readonly ServicePart[]
  readonly clock: Clock
}): readonly ConsolePage[] => {
  let cachedCheck: Promise<Checked> | null = null
  let cachedAtMs = Number.NEGATIVE_INFINITY
  const since = isoTime(clock())

  const check = (): Promise<Checked> => {
    const atMs = clock()
    if (cachedCheck === null || atMs - cachedAtMs >= cacheMs || atMs < cachedAtMs) {
      cachedAtMs = atMs
      cachedCheck = Promise.all(allParts.map(stateOf)).then((parts) => ({ atMs, parts }))
    }
    return cachedCheck
  }

  return [
    openPage({
      path: '/status',
      name: 'showStatus',
      summary: 'The current state of the service',
      show: async () => {
        const { atMs, parts } = await check()
        return {
          title: 'Status',
          indexed: { path: '/status', description: 'The current state of every part of the service.' },
          body: html`<p class="figure">${sentenceOf(parts)}</p>
<p class="soft">Checked ${timeText(isoTime(atMs))}. Checks run on request, at most every ${cacheMs / 1_000} seconds. This process started ${timeText(since)}; earlier states are not stored.</p>
${tableOf({
  caption: 'Parts of the service',
  rows: parts,
  columns: [
    { title: 'Part', head: true, cell: ({ name }) => name },
    { title: 'State', cell: ({ state }) => stateTexts[state] },
    { title: 'Purpose', cell: ({ about }) => about },
  ],
})}`,
          cliEquivalents: [
            'curl -s $SITE/status.json',
            'curl -s -o /dev/null -w "%{http_code}\\n" $SITE/readyz   # 200: orders are taken',
          ],
        }
      },
    }),
    openPage({
      path: '/status.json',
      name: 'readStatus',
      summary: 'The current state of the service, for programs',
      show: async () => {
        const { atMs, parts } = await check()
        const statusJson = {
          status: overallState(parts),
          checkedAt: isoTime(atMs),
          runningSince: since,
          parts,
        }
        return fileOf('status.json', `${JSON.stringify(statusJson, null, 2)}\n`, 'application/json')
      },
    }),
  ]
}
