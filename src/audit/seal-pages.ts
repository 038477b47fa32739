import { textOf } from '../features/finance/index.ts'
import { type Clock, isoTime } from '../kernel/clock.ts'
import type { EventLog } from '../platform/eventstore/port.ts'
import { refuse } from '../platform/http/errors.ts'
import { html, nothing } from '../platform/ui/html.ts'
import { type ConsolePage, type PersonVisit, personPage, show } from '../platform/ui/page.ts'
import { pageRows, pagerOf, tableOf } from '../platform/ui/table.ts'
import { countText, timeText } from '../platform/ui/text.ts'
import { sealsBefore, sealsFileOf } from './seals/seal-queries.ts'
import { publicKeyPem } from './seals/seals-file.ts'

const sealsPath = '/console/finance/seals'

const renderSeals = async (log: EventLog, { query }: PersonVisit) => {
  const beforeText = textOf(query, 'before')
  const before = /^\d{1,15}$/.test(beforeText) ? Number(beforeText) : null
  const page = await sealsBefore(log, { before, limit: pageRows })
  const [newest] = page.seals
  return show({
    title: 'Seals',
    acts:
      newest === undefined
        ? nothing
        : html`<a class="button first" href="/console/finance/seals.json">For a checker</a>`,
    body: html`<p>A seal is a signature over a digest of the log. With a seal that was kept elsewhere, anybody finds out whether the log was cut or rewritten since.</p>
${tableOf({
  caption: 'Seals, newest first',
  rows: page.seals,
  empty: html`<p>${before === null ? 'Nothing is sealed yet.' : 'None is older.'}</p>`,
  columns: [
    { title: 'Sealed', head: true, cell: ({ sealedAt }) => timeText(sealedAt) },
    { title: 'Covers', number: true, cell: ({ throughOrdinal }) => countText(throughOrdinal, 'event') },
    { title: 'Digest', cell: ({ digest }) => html`<code>${digest}</code>` },
    { title: 'Key', cell: ({ publicKey }) => html`<code>${publicKey.slice(0, 16)}…</code>` },
  ],
})}
${pagerOf(sealsPath, {}, { before: before === null ? null : beforeText, next: page.next === null ? null : String(page.next) })}
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
      'python3 test/audit/seals/check_seals.py log.jsonl seal-public.pem',
    ],
  })
}

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
  personPage({
    path: sealsPath,
    name: 'showSeals',
    summary: 'The seals of the log',
    for: ['finance'],
    nav: { label: 'Seals', group: 'Finance' },
    show: (visit) => renderSeals(log, visit),
  }),
  personPage({
    path: '/console/finance/seals.json',
    name: 'downloadSeals',
    summary: 'The last seals and all changes of the key, to be kept elsewhere',
    for: ['finance'],
    show: async ({ nowMs }) => {
      const file = await sealsFileOf({ log, clock }, maxSealsInFile)
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
