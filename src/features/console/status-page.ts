import { type Clock, isoTime } from '../../kernel/clock.ts'
import { html } from '../../platform/ui/html.ts'
import { type ConsolePage, openPage, show } from '../../platform/ui/page.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { stateText, timeText } from '../../platform/ui/text.ts'

/** The state of a part of the service: it works, is late, does not work, or has no result yet. */
export type PartState = 'up' | 'late' | 'down' | 'new'

/** A part of the service that customers see. `about` says what it does, never how. */
export type ServicePart = {
  readonly name: string
  readonly about: string
  /** An error means that the part is down. */
  state(): Promise<PartState>
}

/** Results are cached for this time, milliseconds. */
const heldMs = 5_000
/** A part whose state does not arrive within this time is down, milliseconds. */
const answerMs = 3_000

type Found = { readonly name: string; readonly about: string; readonly state: PartState }
type Checked = { readonly atMs: number; readonly parts: readonly Found[] }

const stateOf = async (part: ServicePart): Promise<Found> => {
  const { name, about } = part
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<PartState>((resolve) => {
    timer = setTimeout(() => resolve('down'), answerMs)
  })
  try {
    return { name, about, state: await Promise.race([part.state(), late]) }
  } catch {
    // Only operators see the cause, in /readyz and in the log.
    return { name, about, state: 'down' }
  } finally {
    clearTimeout(timer)
  }
}

const words: Readonly<Record<PartState, ReturnType<typeof stateText>>> = {
  up: stateText('works', 'good'),
  late: stateText('late', 'warn'),
  down: stateText('does not work', 'bad'),
  new: stateText('nothing yet', 'off'),
}

const sentenceOf = (parts: readonly Found[]): string => {
  const named = (state: PartState): string =>
    parts
      .filter((part) => part.state === state)
      .map(({ name }) => name)
      .join(', ')
  if (named('down') !== '') return `Does not work now: ${named('down')}.`
  return named('late') === '' ? 'Everything works.' : `Everything works; late: ${named('late')}.`
}

/** The worst state of the parts. A part without a result yet does not count. */
const wholeOf = (parts: readonly Found[]): PartState => {
  const has = (state: PartState): boolean => parts.some((part) => part.state === state)
  if (has('down')) return 'down'
  return has('late') ? 'late' : 'up'
}

/** The public pages with the current state of the service. */
export const statusPages = ({
  serviceParts,
  clock,
}: {
  readonly serviceParts: readonly ServicePart[]
  readonly clock: Clock
}): readonly ConsolePage[] => {
  let held: Promise<Checked> | null = null
  let heldAtMs = Number.NEGATIVE_INFINITY
  const since = isoTime(clock())

  const check = (): Promise<Checked> => {
    const atMs = clock()
    if (held === null || atMs - heldAtMs >= heldMs || atMs < heldAtMs) {
      heldAtMs = atMs
      held = Promise.all(serviceParts.map(stateOf)).then((found) => ({ atMs, parts: found }))
    }
    return held
  }

  return [
    openPage({
      path: '/status',
      name: 'showStatus',
      summary: 'How the service is right now',
      nav: { label: 'Status', group: 'For everybody' },
      show: async () => {
        const checked = await check()
        return show({
          title: 'Status',
          indexed: { path: '/status', description: 'Which parts of the service work right now.' },
          body: html`<p class="figure">${sentenceOf(checked.parts)}</p>
<p class="soft">Checked ${timeText(isoTime(checked.atMs))}. It is checked when somebody asks, at most every ${heldMs / 1_000} seconds. This process runs since ${timeText(since)}; how it was before is not kept.</p>
${tableOf({
  caption: 'Parts of the service',
  rows: checked.parts,
  empty: html`<p>There is no part.</p>`,
  columns: [
    { title: 'Part', head: true, cell: ({ name }) => name },
    { title: 'Now', cell: ({ state }) => words[state] },
    { title: 'What it does', cell: ({ about }) => about },
  ],
})}`,
          same: [
            'curl -s $SITE/status.json',
            'curl -s -o /dev/null -w "%{http_code}\\n" $SITE/readyz   # 200: orders are taken',
          ],
        })
      },
    }),
    openPage({
      path: '/status.json',
      name: 'readStatus',
      summary: 'How the service is right now, for programs',
      show: async () => {
        const { atMs, parts } = await check()
        const whole = { status: wholeOf(parts), checkedAt: isoTime(atMs), runningSince: since, parts }
        return {
          kind: 'file',
          name: 'status.json',
          mediaType: 'application/json',
          content: `${JSON.stringify(whole, null, 2)}\n`,
        }
      },
    }),
  ]
}
