import type pg from 'pg'
import { linkedText, textOf } from '../features/finance/index.ts'
import { isoTime } from '../kernel/clock.ts'
import type { Actor } from '../kernel/event.ts'
import { positionToken } from '../kernel/log-position.ts'
import { refuse } from '../platform/http/errors.ts'
import type { Assets } from '../platform/ui/assets.ts'
import { keyField } from '../platform/ui/form.ts'
import { type Html, html, nothing } from '../platform/ui/html.ts'
import { createLongRuns, followingRuns, type LongRun, progressBar } from '../platform/ui/long-runs.ts'
import {
  type ConsolePage,
  displayNameOf,
  goTo,
  type PersonVisit,
  personPage,
  show,
} from '../platform/ui/page.ts'
import { pagedOf, pageRows, pagerOf, tableOf } from '../platform/ui/table.ts'
import {
  afterOf,
  afterText,
  type BadgeTone,
  countText,
  idText,
  stateText,
  timeText,
} from '../platform/ui/text.ts'
import type { VerifyOptions, VerifyProgress } from './checks/checks.ts'
import { findingText } from './checks/finding.ts'
import { acknowledgedText } from './checks/sequence-check.ts'
import { checkRuns, type RunsChain } from './checks/verification-chain.ts'
import { findVerification, newRunId, type Verification, verificationsAfter } from './verification-runs.ts'

const outcomeTexts: Readonly<Record<Verification['outcome'], readonly [string, BadgeTone]>> = {
  running: ['runs', 'warn'],
  clean: ['clean', 'good'],
  differs: ['differs', 'bad'],
  failed: ['ended without a verdict', 'off'],
}

const verificationsPath = '/console/finance/verifications'

/** The state of the chain of runs. Every page shows it, not only the page of the broken run. */
const chainText = ({ links, digest, findings }: RunsChain): Html => {
  if (findings.length > 0)
    return html`<div class="said bad" role="alert"><p>The chain of runs is broken: what is listed here is not what was kept.</p>
<ul>${findings.map((finding) => html`<li>${finding}</li>\n`)}</ul></div>`
  return links === 0
    ? nothing
    : html`<p>${countText(links, 'run')} chained, and each fits the one before it. Digest after the last, to be kept elsewhere: <code>${digest}</code></p>`
}

const phaseTexts: Readonly<Record<VerifyProgress['phase'], string>> = {
  log: 'reads the log',
  order: 'checks seals and laws',
  projections: 'compares the tables',
}

const runStateHtml = ({ state, runId }: VerificationRun): Html => {
  switch (state.kind) {
    case 'runs': {
      const { progress } = state
      if (progress === null) return stateText('begins', 'warn')
      const { phase, done, total, count } = progress
      const unit = phase === 'projections' ? 'table' : 'event'
      return html`${stateText(phaseTexts[phase], 'warn')} ${progressBar(done, total, phase === 'order' ? 'of the whole log' : `${countText(count, unit)} so far`)}`
    }
    case 'failed':
      return html`${stateText(...outcomeTexts.failed)}<br><small>${state.why}</small>`
    case 'done':
      return html`<a href="${verificationsPath}/${runId}">${stateText(...outcomeTexts[state.result.outcome])}</a>`
    default:
      return state satisfies never
  }
}

/** The runs that pages of this process started. */
const startedRunsHtml = (startedRuns: readonly VerificationRun[], content: Html): Html =>
  followingRuns(
    'runs',
    verificationsPath,
    startedRuns.some(({ state }) => state.kind === 'runs'),
    html`${
      startedRuns.length === 0
        ? nothing
        : tableOf({
            caption: 'Begun from this page, newest first',
            rows: startedRuns,
            empty: nothing,
            columns: [
              { title: 'Run', head: true, cell: ({ runId }) => idText(runId) },
              { title: 'State', cell: runStateHtml },
              { title: 'Began', cell: ({ startedAtMs }) => timeText(isoTime(startedAtMs)) },
              { title: 'By', cell: ({ by }) => by },
            ],
          })
    }
${content}`,
  )

/** Runs the verifications that pages start, one at a time. */
export const createVerificationRuns = (
  verify: (
    request: Pick<VerifyOptions, 'runId' | 'onProgress' | 'signal'> & { readonly actor: Actor },
  ) => Promise<Verification>,
): VerificationRuns & { stop(): Promise<void> } => {
  const longRuns = createLongRuns<VerificationRunRef, VerifyProgress, Verification>()
  return {
    list: longRuns.list,
    start: (request, actor) =>
      longRuns.start(request, (callbacks) => verify({ runId: request.runId, actor, ...callbacks })),
    stop: longRuns.stop,
  }
}

type VerificationServices = {
  readonly pool: pg.Pool
  readonly verifications: VerificationRuns
  readonly island: Assets['island']
}

const renderVerifications = async (
  { pool, verifications, island }: VerificationServices,
  { query, formKey }: PersonVisit,
) => {
  const before = textOf(query, 'before')
  const after = afterOf(before)
  const [verificationRows, chain] = await Promise.all([
    verificationsAfter(pool, { after, limit: pageRows + 1 }),
    checkRuns(pool),
  ])
  const { rows, next } = pagedOf(verificationRows, ({ startedAt, runId }) => afterText(startedAt, runId))
  return show({
    title: 'Verifications',
    body: html`<p>A verification folds the whole log anew, compares what the tables hold, checks every seal and every law of the books. It changes nothing, runs beside the service, and takes as much disk in Postgres as the read tables while it runs; a log of many millions of events is better verified by the command on another machine.</p>
<form method="post" action="${verificationsPath}">${keyField(formKey)}<div class="acts"><button class="first">Verify the log now</button></div></form>
${startedRunsHtml(
  verifications.list(),
  html`${chainText(chain)}
${tableOf({
  caption: 'Verifications, newest first',
  rows,
  empty: html`<p>The log was never verified.</p>`,
  columns: [
    {
      title: 'Run',
      head: true,
      cell: ({ runId }) => html`<a href="${verificationsPath}/${runId}">${runId}</a>`,
    },
    { title: 'Outcome', cell: ({ outcome }) => stateText(...outcomeTexts[outcome]) },
    { title: 'Findings', number: true, cell: ({ result }) => String(result?.findingCount ?? '') },
    { title: 'Events', number: true, cell: ({ result }) => String(result?.events ?? '') },
    { title: 'Began', cell: ({ startedAt }) => timeText(startedAt) },
    { title: 'By', cell: ({ actor }) => actor },
  ],
})}`,
)}
${pagerOf(verificationsPath, {}, { before: after === null ? null : before, next })}`,
    same: [
      'curl "$FINANCE/verifications?limit=50" -H "Authorization: Bearer $TOKEN"',
      'npx farebox ledger verify',
      'npx farebox ledger verifications',
    ],
    scripts: [island('live-parts')],
  })
}

const startVerification = (verifications: VerificationRuns, { visitor, nowMs, cause }: PersonVisit) => {
  const startedRun = verifications.start(
    { runId: newRunId(), by: displayNameOf(visitor), startedAtMs: nowMs },
    cause.actor,
  )
  return goTo(
    verificationsPath,
    startedRun === null
      ? 'Another verification runs in this process already: nothing was begun.'
      : 'The verification has begun. Below is how far it is; its verdict is kept.',
  )
}

const renderVerification = async (pool: pg.Pool, { params, visitor }: PersonVisit) => {
  const run = await findVerification(pool, params.id ?? '')
  if (run === null) throw refuse('not_found', 'no verification has this id')
  const { result } = run
  const { roles } = visitor
  const factHtml = (name: string, value: Html | string): Html => html`<dt>${name}</dt><dd>${value}</dd>\n`
  return show({
    title: 'A verification',
    body: html`<dl class="facts">
${factHtml('Run', idText(run.runId))}
${factHtml('Outcome', stateText(...outcomeTexts[run.outcome]))}
${factHtml('Began', timeText(run.startedAt))}
${factHtml('Ended', timeText(run.finishedAt, 'not yet'))}
${factHtml('By', run.actor)}
${
  result === null
    ? nothing
    : html`${factHtml('Up to', linkedText(positionToken(result.position), roles))}
${factHtml('Events', String(result.events))}
${factHtml('Seals', String(result.seals.seals))}
${factHtml('Sealed', `the first ${countText(result.seals.sealedThrough, 'event')}; ${result.seals.unsealed} after them`)}
${factHtml('Digest', html`<code>${result.seals.digest}</code>`)}`
}
</dl>
${
  result === null
    ? nothing
    : html`<h2>Findings</h2>
${
  result.findingCount === 0
    ? html`<p>None.</p>`
    : html`<p class="said bad">${countText(result.findingCount, 'finding')}; the first ${result.findings.length} are kept.</p>
<ul>${result.findings.map((finding) => html`<li>${linkedText(findingText(finding), roles)}</li>\n`)}</ul>`
}
${
  result.acknowledged === undefined || result.acknowledged.count === 0
    ? nothing
    : html`<h2>Acknowledged</h2>
<p>${countText(result.acknowledged.count, 'event')}, which an operator knows of; the first ${result.acknowledged.first.length} are kept.</p>
<ul>${result.acknowledged.first.map((acknowledgedEvent) => html`<li>${linkedText(acknowledgedText(acknowledgedEvent), roles)}</li>\n`)}</ul>`
}
<h2>What was compared</h2>
${tableOf({
  caption: 'Groups of tables that were made anew and compared',
  rows: result.groups,
  empty: html`<p>No group of tables was compared.</p>`,
  columns: [
    { title: 'Group', head: true, cell: ({ group }) => group },
    { title: 'Up to', cell: ({ position }) => linkedText(positionToken(position), roles) },
    { title: 'Tables', number: true, cell: ({ tables }) => String(tables) },
    { title: 'Rows', number: true, cell: ({ rows }) => String(rows) },
  ],
})}`
}`,
    same: ['curl "$FINANCE/verifications" -H "Authorization: Bearer $TOKEN"', 'npx farebox ledger verify'],
  })
}

/** The pages with the verifications of the log, and the form that starts one. */
export const verificationPages = (services: VerificationServices): readonly ConsolePage[] => [
  personPage({
    path: verificationsPath,
    name: 'showVerifications',
    summary: 'The runs that verified the log, and the start of another',
    for: ['finance'],
    nav: { label: 'Verifications', group: 'Finance' },
    show: (visit) => renderVerifications(services, visit),
    act: { once: true, run: async (visit) => startVerification(services.verifications, visit) },
  }),
  personPage({
    path: '/console/finance/verifications/{id}',
    name: 'showVerification',
    summary: 'One verification with what it found',
    for: ['finance'],
    show: (visit) => renderVerification(services.pool, visit),
  }),
]

export type VerificationRunRef = { readonly runId: string }

export type VerificationRun = LongRun<VerificationRunRef, VerifyProgress, Verification>

/**
 * The last verifications that pages of this process started, newest first, and the start of another. One runs at a
 * time.
 */
export type VerificationRuns = {
  list(): readonly VerificationRun[]
  /** @returns a promise that resolves when the run ends; null while another one runs */
  start(request: Omit<VerificationRun, 'state'>, actor: Actor): Promise<void> | null
}
