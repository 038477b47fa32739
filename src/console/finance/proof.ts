import { sealsBefore, sealsFileOf } from '../../books/audit/queries.ts'
import { findVerification, type Verification, verificationsAfter } from '../../books/audit/runs.ts'
import { checkRuns, type RunsChain } from '../../books/audit/runs-chain.ts'
import { publicKeyPem } from '../../books/audit/seal-key.ts'
import { findingText } from '../../books/audit/verify/finding.ts'
import { isoTime } from '../../kernel/clock.ts'
import { refuse } from '../../platform/http/errors.ts'
import { type Html, html, nothing } from '../../platform/pages/html.ts'
import { positionToken } from '../../terms/position.ts'
import { afterOf, afterText, type Look, stateText } from '../customer/words.ts'
import { pagedOf, pageRows, pagerOf, tableOf } from '../frame/table.ts'
import { countText, idText, timeText } from '../frame/text.ts'
import { type ConsolePage, type PersonVisit, personPage, show } from '../pages/page.ts'
import { linkedText } from '../staff/trail.ts'
import { textOf } from './asked.ts'
import type { FinanceDeps } from './deps.ts'

const outcomes: Readonly<Record<Verification['outcome'], readonly [string, Look]>> = {
  running: ['runs', 'warn'],
  clean: ['clean', 'good'],
  differs: ['differs', 'bad'],
  failed: ['ended without a verdict', 'off'],
}

const runs = '/console/finance/verifications'

/** Whether the kept runs still fit each other; every page says it, not only the one with the run that does not. */
const chainText = ({ links, digest, findings }: RunsChain): Html => {
  if (findings.length > 0)
    return html`<div class="said bad" role="alert"><p>The chain of runs is broken: what is listed here is not what was kept.</p>
<ul>${findings.map((finding) => html`<li>${finding}</li>\n`)}</ul></div>`
  return links === 0
    ? nothing
    : html`<p>${countText(links, 'run')} chained, and each fits the one before it. Digest after the last, to be kept elsewhere: <code>${digest}</code></p>`
}

const verifications = async ({ pool }: FinanceDeps, { query }: PersonVisit) => {
  const before = textOf(query, 'before')
  const after = afterOf(before)
  const [found, chain] = await Promise.all([
    verificationsAfter(pool, { after, limit: pageRows + 1 }),
    checkRuns(pool),
  ])
  const { rows, next } = pagedOf(found, ({ startedAt, runId }) => afterText(startedAt, runId))
  return show({
    title: 'Verifications',
    body: html`<p>A verification folds the whole log anew, compares what the tables hold, checks every seal and every law of the books.</p>
${chainText(chain)}
${tableOf({
  caption: 'Verifications, newest first',
  rows,
  empty: html`<p>The log was never verified. The command below does it beside the running service.</p>`,
  columns: [
    { title: 'Run', head: true, cell: ({ runId }) => html`<a href="${runs}/${runId}">${runId}</a>` },
    { title: 'Outcome', cell: ({ outcome }) => stateText(...outcomes[outcome]) },
    { title: 'Findings', number: true, cell: ({ result }) => String(result?.findingCount ?? '') },
    { title: 'Events', number: true, cell: ({ result }) => String(result?.events ?? '') },
    { title: 'Began', cell: ({ startedAt }) => timeText(startedAt) },
    { title: 'By', cell: ({ actor }) => actor },
  ],
})}
${pagerOf(runs, {}, { before: after === null ? null : before, next })}`,
    same: [
      'curl "$FINANCE/verifications?limit=50" -H "Authorization: Bearer $TOKEN"',
      'npx farebox ledger verify',
      'npx farebox ledger verifications',
    ],
  })
}

const verification = async ({ pool }: FinanceDeps, { params, visitor }: PersonVisit) => {
  const run = await findVerification(pool, params.id ?? '')
  if (run === null) throw refuse('not_found', 'no verification has this id')
  const { result } = run
  const { roles } = visitor
  const fact = (name: string, value: Html | string): Html => html`<dt>${name}</dt><dd>${value}</dd>\n`
  return show({
    title: 'A verification',
    body: html`<dl class="facts">
${fact('Run', idText(run.runId))}
${fact('Outcome', stateText(...outcomes[run.outcome]))}
${fact('Began', timeText(run.startedAt))}
${fact('Ended', timeText(run.finishedAt, 'not yet'))}
${fact('By', run.actor)}
${
  result === null
    ? nothing
    : html`${fact('Up to', linkedText(positionToken(result.position), roles))}
${fact('Events', String(result.events))}
${fact('Seals', String(result.seals.seals))}
${fact('Sealed', `the first ${countText(result.seals.sealedThrough, 'event')}; ${result.seals.unsealed} after them`)}
${fact('Digest', html`<code>${result.seals.digest}</code>`)}`
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

const sealsPath = '/console/finance/seals'

const seals = async ({ log }: FinanceDeps, { query }: PersonVisit) => {
  const typed = textOf(query, 'before')
  const before = /^\d{1,15}$/.test(typed) ? Number(typed) : null
  const found = await sealsBefore(log, { before, limit: pageRows })
  const [newest] = found.seals
  return show({
    title: 'Seals',
    acts:
      newest === undefined
        ? nothing
        : html`<a class="button first" href="/console/finance/seals.json">For a checker</a>`,
    body: html`<p>A seal is a signature over a digest of the log. With a seal that was kept elsewhere, anybody finds out whether the log was cut or rewritten since.</p>
${tableOf({
  caption: 'Seals, newest first',
  rows: found.seals,
  empty: html`<p>${before === null ? 'Nothing is sealed yet.' : 'None is older.'}</p>`,
  columns: [
    { title: 'Sealed', head: true, cell: ({ sealedAt }) => timeText(sealedAt) },
    { title: 'Covers', number: true, cell: ({ throughOrdinal }) => countText(throughOrdinal, 'event') },
    { title: 'Digest', cell: ({ digest }) => html`<code>${digest}</code>` },
    { title: 'Key', cell: ({ publicKey }) => html`<code>${publicKey.slice(0, 16)}…</code>` },
  ],
})}
${pagerOf(sealsPath, {}, { before: before === null ? null : typed, next: found.next === null ? null : String(found.next) })}
${
  newest === undefined
    ? nothing
    : html`<h2>Checking them without Farebox</h2>
<ol>
<li>Keep this file, and the one of an earlier day, on another machine: it holds the last 100 seals and every change of the key.</li>
<li>Compare the public key with what <code>ledger seals public-key</code> printed on the machine that signs; a key that only the log names proves nothing.</li>
<li>Export the log, and run the checker over it: it needs Python 3 and openssl, and nothing of Farebox.</li>
</ol>
<pre class="result" tabindex="0">${publicKeyPem(newest.publicKey).trim()}</pre>`
}`,
    same: [
      'curl "$FINANCE/seals?limit=50" -H "Authorization: Bearer $TOKEN"',
      'npx farebox ledger seals export --file seals.json',
      'npx farebox ledger export --format jsonl --out log.jsonl',
      'python3 test/audit/check_seals.py log.jsonl seal-public.pem',
    ],
  })
}

/** Seals of one file. */
const lastSeals = 100

/** What proves the log: its seals, and the runs that verified it. */
export const proofPages = (deps: FinanceDeps): readonly ConsolePage[] => [
  personPage({
    path: runs,
    name: 'showVerifications',
    summary: 'The runs that verified the log',
    for: ['finance'],
    nav: { label: 'Verifications', group: 'Finance' },
    show: (visit) => verifications(deps, visit),
  }),
  personPage({
    path: '/console/finance/verifications/{id}',
    name: 'showVerification',
    summary: 'One verification with what it found',
    for: ['finance'],
    show: (visit) => verification(deps, visit),
  }),
  personPage({
    path: sealsPath,
    name: 'showSeals',
    summary: 'The seals of the log',
    for: ['finance'],
    nav: { label: 'Seals', group: 'Finance' },
    show: (visit) => seals(deps, visit),
  }),
  personPage({
    path: '/console/finance/seals.json',
    name: 'downloadSeals',
    summary: 'The last seals and all changes of the key, to be kept elsewhere',
    for: ['finance'],
    show: async ({ nowMs }) => {
      const file = await sealsFileOf(deps, lastSeals)
      if (file === null) throw refuse('not_found', 'nothing is sealed yet')
      return {
        kind: 'file',
        name: `seals-${isoTime(nowMs).slice(0, 10)}.json`,
        mediaType: 'application/json',
        content: `${JSON.stringify(file, null, 2)}\n`,
      }
    },
  }),
]
