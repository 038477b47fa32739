import type pg from 'pg'
import { linkedText, textOf } from '../features/finance/index.ts'
import { type Clock, isoTime } from '../kernel/clock.ts'
import type { Actor } from '../kernel/event.ts'
import { positionToken } from '../kernel/log-position.ts'
import type { EventLog } from '../platform/eventstore/port.ts'
import { refuse } from '../platform/http/errors.ts'
import { formOf } from '../platform/ui/form.ts'
import { type Html, html, nothing } from '../platform/ui/html.ts'
import { listOf, pageRows, pagerOf } from '../platform/ui/list.ts'
import { createLongRuns, type LongRun, progressBar, runStateOf, runsTable } from '../platform/ui/long-runs.ts'
import { type ConsolePage, displayNameOf, fileOf, financePage, goTo, type Role } from '../platform/ui/page.ts'
import { countColumn, detailsOf, stateColumn, tableOf, textColumn, timeColumn } from '../platform/ui/table.ts'
import {
  afterText,
  type BadgeTone,
  buttonLink,
  countText,
  idText,
  stateText,
  timeText,
} from '../platform/ui/text.ts'
import type { VerifyOptions, VerifyProgress } from './checks/checks.ts'
import { findingText } from './checks/finding.ts'
import { checkRuns, type RunsChain } from './checks/record-checks.ts'
import { acknowledgedText } from './checks/sequence-check.ts'
import { sealsBefore, sealsFileOf } from './seals/seal-queries.ts'
import { publicKeyPem } from './seals/seals-file.ts'
import { findVerification, newRunId, type Verification, verificationsAfter } from './verification-runs.ts'

const outcomeTexts: Readonly<Record<Verification['outcome'], readonly [string, BadgeTone]>> = {
  running: ['running', 'warn'],
  clean: ['clean', 'good'],
  differs: ['differs', 'bad'],
  failed: ['failed', 'off'],
}

const verificationsPath = '/console/finance/verifications'

/** The state of the chain of runs. Every page shows it, not only the page of the broken run. */
const chainText = ({ links, digest, findings }: RunsChain): Html => {
  if (findings.length > 0)
    return html`<div class="message bad" role="alert"><p>The chain of runs is broken: stored runs were changed.</p>
<ul>${findings.map((finding) => html`<li>${finding}</li>\n`)}</ul></div>`
  return links === 0
    ? nothing
    : html`<p>${countText(links, 'run')} chained without a gap. Store this digest of the last run elsewhere: <code>${digest}</code></p>`
}

const phaseTexts: Readonly<Record<VerifyProgress['phase'], string>> = {
  log: 'reading the log',
  order: 'checking seals and invariants',
  projections: 'comparing tables',
}

const runStateHtml = (run: VerificationRun): Html =>
  runStateOf(run, {
    running: ({ phase, done, total, count }) => {
      const unit = phase === 'projections' ? 'table' : 'event'
      const progressText = phase === 'order' ? 'of the whole log' : `${countText(count, unit)} so far`
      return html`${stateText(phaseTexts[phase], 'warn')} ${progressBar(done, total, progressText)}`
    },
    done: ({ outcome }) =>
      html`<a href="${verificationsPath}/${run.runId}">${stateText(...outcomeTexts[outcome])}</a>`,
  })

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

const resultHtml = (result: NonNullable<Verification['result']>, roles: ReadonlySet<Role>): Html => {
  const { findings, findingCount, acknowledged, groups } = result
  return html`<h2>Findings</h2>
${
  findingCount === 0
    ? html`<p>None.</p>`
    : html`<p class="message bad">${countText(findingCount, 'finding')}; the first ${findings.length} are stored.</p>
<ul>${findings.map((finding) => html`<li>${linkedText(findingText(finding), roles)}</li>\n`)}</ul>`
}
${
  acknowledged === undefined || acknowledged.count === 0
    ? nothing
    : html`<h2>Acknowledged</h2>
<p>An operator acknowledged ${countText(acknowledged.count, 'event')}; the first ${acknowledged.first.length} are stored.</p>
<ul>${acknowledged.first.map((event) => html`<li>${linkedText(acknowledgedText(event), roles)}</li>\n`)}</ul>`
}
<h2>Compared tables</h2>
${tableOf({
  caption: 'Groups of tables that were rebuilt and compared',
  rows: groups,
  empty: 'No group of tables was compared.',
  columns: [
    { title: 'Group', head: true, cell: ({ group }) => group },
    { title: 'Through', cell: ({ position }) => linkedText(positionToken(position), roles) },
    { title: 'Tables', number: true, cell: ({ tables }) => tables },
    { title: 'Rows', number: true, cell: ({ rows }) => rows },
  ],
})}`
}

/** The pages with the verifications of the log, and the form that starts one. */
export const verificationPages = ({
  pool,
  verifications,
}: {
  readonly pool: pg.Pool
  readonly verifications: VerificationRuns
}): readonly ConsolePage[] => [
  financePage({
    path: verificationsPath,
    name: 'showVerifications',
    summary: 'Verifications of the log, and the start of another one',
    show: async (visit) => {
      const stored = await listOf(visit, {
        caption: 'Verifications, newest first',
        load: (_, page) => verificationsAfter(pool, page),
        keyOf: ({ startedAt, runId }) => afterText(startedAt, runId),
        empty: 'The log was never verified.',
        columns: (_) => [
          { title: 'Run', head: true, cell: ({ runId }) => idText(runId, `${verificationsPath}/${runId}`) },
          stateColumn('Outcome', ({ outcome }) => outcomeTexts[outcome]),
          countColumn('Findings', ({ result }) => result?.findingCount ?? null),
          countColumn('Events', ({ result }) => result?.events ?? null),
          timeColumn('Started', ({ startedAt }) => startedAt, { place: 'plain' }),
          textColumn('By', ({ actor }) => actor, { place: 'minor' }),
        ],
      })
      return {
        title: 'Verifications',
        body: html`<p>A verification reads the whole log, rebuilds the tables for comparison, and checks every seal and every invariant. It changes nothing. While it runs, it needs as much disk space in Postgres as the read tables. For a log of many millions of events, use the command on another machine.</p>
${formOf(visit.form, { submit: 'Verify the log now' })}
${runsTable({
  id: 'runs',
  path: verificationsPath,
  caption: 'Started from this page, newest first',
  runs: verifications.list(),
  columns: [
    { title: 'Run', head: true, cell: ({ runId }) => idText(runId) },
    { title: 'State', cell: runStateHtml },
  ],
  more: html`${chainText(await checkRuns(pool))}\n${stored.body}`,
})}`,
        cliEquivalents: [
          'curl "$FINANCE/verifications?limit=50" -H "Authorization: Bearer $TOKEN"',
          'bin/farebox ledger verify',
          'bin/farebox ledger verifications',
        ],
        islands: ['live-parts'],
      }
    },
    act: {
      once: true,
      run: async ({ visitor, nowMs, cause }) => {
        const run = { runId: newRunId(), by: displayNameOf(visitor), startedAtMs: nowMs }
        return goTo(
          verificationsPath,
          verifications.start(run, cause.actor) === null
            ? 'Another verification is already running in this process.'
            : 'The verification has started. Its progress is shown below.',
        )
      },
    },
  }),
  financePage({
    path: '/console/finance/verifications/{id}',
    name: 'showVerification',
    summary: 'One verification and its findings',
    show: async ({ params, visitor: { roles } }) => {
      const run = await findVerification(pool, params.id ?? '')
      if (run === null) throw refuse('not_found', 'no verification has this id')
      const { result } = run
      return {
        title: 'Verification',
        body: html`${detailsOf([
          ['Run', idText(run.runId)],
          ['Outcome', stateText(...outcomeTexts[run.outcome])],
          ['Started', timeText(run.startedAt)],
          ['Ended', timeText(run.finishedAt, 'not yet')],
          ['By', run.actor],
          ['Through', result && linkedText(positionToken(result.position), roles)],
          ['Events', result && String(result.events)],
          ['Seals', result && String(result.seals.seals)],
          [
            'Sealed',
            result &&
              `the first ${countText(result.seals.sealedThrough, 'event')}; ${result.seals.unsealed} later ones are not sealed`,
          ],
          ['Digest', result && html`<code>${result.seals.digest}</code>`],
        ])}
${result && resultHtml(result, roles)}`,
        cliEquivalents: [
          'curl "$FINANCE/verifications" -H "Authorization: Bearer $TOKEN"',
          'bin/farebox ledger verify',
        ],
      }
    },
  }),
]

type VerificationRunRef = { readonly runId: string }

type VerificationRun = LongRun<VerificationRunRef, VerifyProgress, Verification>

/**
 * The last verifications that pages of this process started, newest first, and the start of another. One runs at a
 * time.
 */
type VerificationRuns = {
  list(): readonly VerificationRun[]
  /** @returns a promise that resolves when the run ends; null while another one runs */
  start(request: Omit<VerificationRun, 'state'>, actor: Actor): Promise<void> | null
}

const sealsPath = '/console/finance/seals'
/** The number of seals in one file. */
const maxSealsInFile = 100

/** The page of seals, and the file that proves the log without Farebox. */
export const sealPages = ({
  log,
  clock,
}: {
  readonly log: EventLog
  readonly clock: Clock
}): readonly ConsolePage[] => [
  financePage({
    path: sealsPath,
    name: 'showSeals',
    summary: 'The seals of the log',
    show: async ({ query }) => {
      const beforeText = textOf(query, 'before')
      const before = /^\d{1,15}$/.test(beforeText) ? Number(beforeText) : null
      const { seals, next } = await sealsBefore(log, { before, limit: pageRows })
      const [newest] = seals
      return {
        title: 'Seals',
        actions:
          newest === undefined ? nothing : buttonLink(`${sealsPath}.json`, 'Download for auditors', 'first'),
        body: html`<p>A seal is a signature over a digest of the log. A seal that was stored elsewhere shows whether the log was truncated or rewritten since then.</p>
${tableOf({
  caption: 'Seals, newest first',
  rows: seals,
  empty: before === null ? 'There are no seals yet.' : 'There are no older seals.',
  columns: [
    { title: 'Sealed', head: true, cell: ({ sealedAt }) => timeText(sealedAt) },
    { title: 'Covers', number: true, cell: ({ throughOrdinal }) => countText(throughOrdinal, 'event') },
    { title: 'Digest', cell: ({ digest }) => html`<code>${digest}</code>` },
    { title: 'Key', cell: ({ publicKey }) => html`<code>${publicKey.slice(0, 16)}…</code>` },
  ],
})}
${pagerOf(sealsPath, {}, { before: before === null ? null : beforeText, next: next === null ? null : String(next) })}
${
  newest === undefined
    ? nothing
    : html`<h2>Check seals without Farebox</h2>
<ol>
<li>Store this file, and one of an earlier day, on another machine. It contains the last 100 seals and every key change.</li>
<li>Compare the public key with the output of <code>ledger seals public-key</code> on the machine that signs. A key that is only in the log proves nothing.</li>
<li>Export the log and run the checker on it. It needs only Python 3 and openssl.</li>
</ol>
<pre class="result" tabindex="0">${publicKeyPem(newest.publicKey).trim()}</pre>`
}`,
        cliEquivalents: [
          'curl "$FINANCE/seals?limit=50" -H "Authorization: Bearer $TOKEN"',
          'bin/farebox ledger seals export --file seals.json',
          'bin/farebox ledger export --format jsonl --out log.jsonl',
          'python3 test/audit/seals/check_seals.py log.jsonl seal-public.pem',
        ],
      }
    },
  }),
  financePage({
    path: '/console/finance/seals.json',
    name: 'downloadSeals',
    summary: 'The last seals and all key changes as a file, to store elsewhere',
    show: async ({ nowMs }) => {
      const file = await sealsFileOf({ log, clock }, maxSealsInFile)
      if (file === null) throw refuse('not_found', 'there are no seals yet')
      const name = `seals-${isoTime(nowMs).slice(0, 10)}.json`
      return fileOf(name, `${JSON.stringify(file, null, 2)}\n`, 'application/json')
    },
  }),
]
