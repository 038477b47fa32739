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
const cacheMs = 5_000
/** A part whose state does not arrive within this time is down, milliseconds. */
const answerMs = 3_000

type CheckedPart = { readonly name: string; readonly about: string; readonly state: PartState }
type Checked = { readonly atMs: number; readonly parts: readonly CheckedPart[] }

const stateOf = async (part: ServicePart): Promise<CheckedPart> => {
  const { name, about } = part
  let timer: NodeJS.Timeout | undefined
  const lateState = new Promise<PartState>((resolve) => {
    timer = setTimeout(() => resolve('down'), answerMs)
  })
  try {
    return { name, about, state: await Promise.race([part.state(), lateState]) }
  } catch {
    // Only operators see the cause, in /readyz and in the log.
    return { name, about, state: 'down' }
  } finally {
    clearTimeout(timer)
  }
}

const stateTexts: Readonly<Record<PartState, ReturnType<typeof stateText>>> = {
  up: stateText('works', 'good'),
  late: stateText('late', 'warn'),
  down: stateText('does not work', 'bad'),
  new: stateText('nothing yet', 'off'),
}

const sentenceOf = (parts: readonly CheckedPart[]): string => {
  const namesInState = (state: PartState): string =>
    parts
      .filter((part) => part.state === state)
      .map(({ name }) => name)
      .join(', ')
  if (namesInState('down') !== '') return `Does not work now: ${namesInState('down')}.`
  return namesInState('late') === ''
    ? 'Everything works.'
    : `Everything works; late: ${namesInState('late')}.`
}

/** The worst state of the parts. A part without a result yet does not count. */
const overallState = (parts: readonly CheckedPart[]): PartState => {
  const hasState = (state: PartState): boolean => parts.some((part) => part.state === state)
  if (hasState('down')) return 'down'
  return hasState('late') ? 'late' : 'up'
}

/** The public pages with the current state of the service. */
export const statusPages = ({
  serviceParts,
  clock,
}: {
  readonly serviceParts: readonly ServicePart[]
  readonly clock: Clock
}): readonly ConsolePage[] => {
  let cachedCheck: Promise<Checked> | null = null
  let cachedAtMs = Number.NEGATIVE_INFINITY
  const since = isoTime(clock())

  const check = (): Promise<Checked> => {
    const atMs = clock()
    if (cachedCheck === null || atMs - cachedAtMs >= cacheMs || atMs < cachedAtMs) {
      cachedAtMs = atMs
      cachedCheck = Promise.all(serviceParts.map(stateOf)).then((partStates) => ({ atMs, parts: partStates }))
    }
    return cachedCheck
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
<p class="soft">Checked ${timeText(isoTime(checked.atMs))}. It is checked when somebody asks, at most every ${cacheMs / 1_000} seconds. This process runs since ${timeText(since)}; how it was before is not kept.</p>
${tableOf({
  caption: 'Parts of the service',
  rows: checked.parts,
  empty: html`<p>There is no part.</p>`,
  columns: [
    { title: 'Part', head: true, cell: ({ name }) => name },
    { title: 'Now', cell: ({ state }) => stateTexts[state] },
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
        const statusJson = {
          status: overallState(parts),
          checkedAt: isoTime(atMs),
          runningSince: since,
          parts,
        }
        return {
          kind: 'file',
          name: 'status.json',
          mediaType: 'application/json',
          content: `${JSON.stringify(statusJson, null, 2)}\n`,
        }
      },
    }),
  ]
}
