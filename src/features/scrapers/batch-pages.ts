import { Readable } from 'node:stream'
import { dollarsOfMicros } from '../../kernel/money.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Assets } from '../../platform/ui/assets.ts'
import { html, nothing } from '../../platform/ui/html.ts'
import { progressBar } from '../../platform/ui/long-runs.ts'
import { type AccountVisit, accountPage, type ConsolePage, show } from '../../platform/ui/page.ts'
import { pagedOf, pageRows, pagerOf, tableOf } from '../../platform/ui/table.ts'
import {
  afterOf,
  afterText,
  type BadgeTone,
  countText,
  idText,
  stateText,
  timeText,
} from '../../platform/ui/text.ts'
import type { BatchItems, ShownItem } from './batch-items.ts'
import { itemRequestId, type ScrapeBatches, type ShownBatch, statusOf } from './batch-service.ts'

type BatchServices = {
  readonly batches: Pick<ScrapeBatches, 'find' | 'result'>
  readonly batchItems: Pick<BatchItems, 'ofAccount'>
  readonly island: Assets['island']
}

const root = '/console/scrapers/batches'

const outcomeLabels: Readonly<Record<NonNullable<ShownItem['outcome']>, readonly [string, BadgeTone]>> = {
  found: ['found', 'good'],
  empty: ['empty', 'good'],
  not_found: ['no such target', 'off'],
  restricted: ['restricted', 'off'],
  failed: ['failed', 'bad'],
}

const states: Readonly<Record<ReturnType<typeof statusOf>, readonly [string, BadgeTone]>> = {
  running: ['runs', 'warn'],
  canceling: ['is being canceled', 'warn'],
  finished: ['finished', 'good'],
  canceled: ['canceled', 'off'],
}

const stateOf = (batch: Parameters<typeof statusOf>[0]) => stateText(...states[statusOf(batch)])

const batchCall = (inputs: string): string =>
  `curl $SITE/v1/scrape/batch -H "X-API-Key: $KEY" -H "X-Request-Id: $(uuidgen)" --json '{"platform": "reddit", "operation": "subreddit", "inputs": ${inputs}}'`

const list = async (batchItems: BatchServices['batchItems'], { account, query }: AccountVisit) => {
  const before = query.get('before')
  const after = afterOf(before)
  const { rows, next } = pagedOf(
    await batchItems.ofAccount(account.accountId, { after, limit: pageRows + 1 }),
    ({ created_at: at, batch_id: id }) => afterText(at, id),
  )
  return show({
    title: 'Batches',
    acts: html`<a class="button" href="/console/scrapers">Scrapers</a>`,
    body: html`<p>A batch makes up to 100 calls of one scraper, which go on without anybody. It is sent by the API, and can be read until a day after its end.</p>
${tableOf({
  caption: 'Batches that can be read, newest first',
  rows,
  empty: html`<p>${after === null ? 'There is none now. The call below sends one.' : 'None is older.'}</p>`,
  columns: [
    {
      title: 'Batch',
      head: true,
      cell: ({ batch_id: id, request_id: requestId }) => html`<a href="${root}/${id}">${requestId}</a>`,
    },
    {
      title: 'Scraper',
      cell: ({ platform, operation }) =>
        html`<a href="/console/scrapers/${platform}/${operation}">${platform}/${operation}</a>`,
    },
    { title: 'State', cell: stateOf },
    { title: 'Over', number: true, cell: ({ done, inputs }) => `${done} of ${inputs}` },
    { title: 'Charged, USD', number: true, cell: ({ charged_micros: micros }) => dollarsOfMicros(micros) },
    { title: 'Sent', cell: ({ created_at: at }) => timeText(at) },
  ],
})}
${pagerOf(root, {}, { before: after === null ? null : before, next })}`,
    same: [batchCall('[{"subreddit": "AskReddit"}, {"subreddit": "node"}]')],
  })
}

/** The batch of the path. @throws not_found */
const batchOf = async (
  batches: BatchServices['batches'],
  { account, params }: AccountVisit,
): Promise<ShownBatch> => {
  const found = await batches.find(account.accountId, params.id ?? '')
  if (found === null) throw refuse('not_found', 'there is no such batch, or it was over more than a day ago')
  return found
}

const isResult = ({ outcome }: ShownItem): boolean => outcome === 'found' || outcome === 'empty'

const batchView = async ({ batches, island }: Omit<BatchServices, 'batchItems'>, visit: AccountVisit) => {
  const { batch, items } = await batchOf(batches, visit)
  const { batch_id: id, platform, operation, finished_at: finishedAt, inputs } = batch
  const done = items.filter(({ outcome }) => outcome !== null).length
  const charged = items.reduce((sum, { charged_micros: micros }) => sum + micros, 0)
  const results = items.filter(isResult).length
  const batchPath = `${root}/${id}`
  return show({
    title: `A batch of ${platform}/${operation}`,
    body: html`<live-parts><div id="batch" data-live${finishedAt === null ? { html: ' data-runs' } : null}>
<dl class="facts">
<dt>State</dt><dd>${stateOf(batch)}${finishedAt === null ? html` ${progressBar(done, inputs, `${done} of ${countText(inputs, 'call')} finished`)} <a href="${batchPath}">Refresh</a>` : null}</dd>
<dt>Batch</dt><dd>${idText(id)}</dd>
<dt>Its X-Request-Id</dt><dd>${idText(batch.request_id)}</dd>
<dt>API key</dt><dd><a href="/console/keys/${batch.key_id}">${idText(batch.key_id)}</a></dd>
<dt>Charged</dt><dd>$${dollarsOfMicros(charged)}</dd>
<dt>Sent</dt><dd>${timeText(batch.created_at)}</dd>
<dt>Finished</dt><dd>${timeText(finishedAt, 'not yet')}</dd>
</dl>
${results === 0 ? nothing : html`<p class="acts"><a class="button first" href="${batchPath}/results">Download ${countText(results, 'result')}</a></p>`}
<h2>Its calls</h2>
${tableOf({
  caption: 'Calls, in the order of the inputs',
  rows: items,
  empty: html`<p>It has none.</p>`,
  columns: [
    { title: 'Call', head: true, cell: ({ n }) => String(n) },
    {
      title: 'Outcome',
      cell: ({ outcome, problem }) =>
        outcome === null
          ? stateText('runs', 'warn')
          : html`${stateText(...outcomeLabels[outcome])}${problem === null ? null : html`<br><small>${problem}</small>`}`,
    },
    { title: 'Charged, USD', number: true, cell: ({ charged_micros: micros }) => dollarsOfMicros(micros) },
    { title: 'X-Request-Id', cell: ({ n }) => idText(itemRequestId(id, n)) },
  ],
})}
</div></live-parts>
<p class="soft">Results are kept for a day after the end of the batch.</p>`,
    scripts: [island('live-parts')],
    same: [
      `curl $SITE/v1/scrape/batch/${id} -H "X-API-Key: $KEY"`,
      `curl $SITE/v1/scrape/batch/${id}/results/1 -H "X-API-Key: $KEY"`,
      `curl -X DELETE $SITE/v1/scrape/batch/${id} -H "X-API-Key: $KEY"   # cancels it`,
    ],
  })
}

/**
 * The results of a batch, one line each as in the API. They are read one after another, so that a long file needs no
 * more memory.
 */
async function* resultLines(
  batches: BatchServices['batches'],
  { account }: AccountVisit,
  shownBatch: ShownBatch,
) {
  for (const item of shownBatch.items.filter(isResult)) {
    const bytes = await batches.result(account.accountId, shownBatch.batch.batch_id, item.n)
    if (bytes !== null) yield `${JSON.stringify(JSON.parse(bytes.toString('utf8')))}\n`
  }
}

/** Batches of scrapes: their progress, cost, and results as a file. */
export const scrapeBatchPages = ({ batches, batchItems, island }: BatchServices): readonly ConsolePage[] => [
  accountPage({
    path: root,
    name: 'showScrapeBatches',
    summary: 'The batches of scrapes that can be read',
    show: (visit) => list(batchItems, visit),
  }),
  accountPage({
    path: `${root}/{id}`,
    name: 'showScrapeBatch',
    summary: 'One batch of scrapes with its progress and its calls',
    show: (visit) => batchView({ batches, island }, visit),
  }),
  accountPage({
    path: `${root}/{id}/results`,
    name: 'downloadScrapeBatch',
    summary: 'The results of a batch as JSON lines',
    show: async (visit) => {
      const shownBatch = await batchOf(batches, visit)
      return {
        kind: 'file',
        name: `${shownBatch.batch.batch_id}.jsonl`,
        mediaType: 'text/plain',
        content: Readable.from(resultLines(batches, visit, shownBatch), { objectMode: false }),
      }
    },
  }),
]
