import { ApiError, type ErrorCode, refuse, refuseUntil } from '../../platform/http/errors.ts'
import { type Html, html, nothing } from '../../platform/pages/html.ts'
import type { TakeScrape } from '../../scrapers/calls/rate.ts'
import { inputOf, type Scrapes } from '../../scrapers/calls/service.ts'
import { exampleBody, type InputValue, rowName, type ScraperRow } from '../../scrapers/catalog/row.ts'
import { scraperOf } from '../../scrapers/catalog/table.ts'
import type { ScraperHealth } from '../../scrapers/provider/health.ts'
import type { Scraping } from '../../scrapers/provider/port.ts'
import { cacheDays } from '../../scrapers/provider/port.ts'
import { dollarsOfMicros } from '../../terms/money.ts'
import {
  hiddenOf,
  keyField,
  type Problems,
  problemsOf,
  selectOf,
  type Typed,
  untyped,
} from '../frame/form.ts'
import { type AccountVisit, accountPage, type ConsolePage, type Outcome, show } from '../pages/page.ts'
import { sentenceOf } from '../pages/refusal.ts'
import { bodyOf, hiddenInputs, inputFields, inputProblems } from './input-form.ts'
import { healthText, scraperState } from './words.ts'

export type PlaygroundDeps = {
  readonly scraping: Pick<Scraping, 'stateOf'>
  readonly health: Pick<ScraperHealth, 'read'>
  readonly scrapes: Pick<Scrapes, 'call'>
  /** Null where limits are switched off. */
  readonly rate: TakeScrape | null
}

type Body = Readonly<Record<string, InputValue>>

/** Characters of a result that a page shows. */
const maxShown = 60_000

/** A result for people: JSON as it came, with its lines broken. */
const resultText = (bytes: Buffer): string => {
  const whole = JSON.stringify(JSON.parse(bytes.toString('utf8')), null, 2)
  return whole.length <= maxShown
    ? whole
    : `${whole.slice(0, maxShown)}\n… and ${whole.length - maxShown} characters more: call it with a key to have all of it`
}

/** Outcomes of a call that are answers of the platform, not faults. */
const answers: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['target_not_found', 'target_restricted'])

const billed = ({ headers }: Pick<ApiError, 'headers'>): boolean => headers?.['x-billed'] === 'true'

const costText = (price: string, charged: boolean, replayed: boolean): string => {
  if (replayed) return charged ? `$${price} were charged before, and no more now.` : 'Nothing was charged.'
  return charged ? `$${price} were charged.` : 'Nothing was charged.'
}

/** The page of one scraper: what it costs, how it does, and a form that calls it. */
export const playgroundPages = (deps: PlaygroundDeps): readonly ConsolePage[] => {
  const rowOf = ({ params }: AccountVisit): ScraperRow => {
    const row = scraperOf(params.platform ?? '', params.operation ?? '')
    if (row === null) throw refuse('not_found', 'no scraper has this platform and operation')
    return row
  }

  const pathOf = (row: ScraperRow): string => `/console/scrapers/${rowName(row)}`

  const cacheField = ({ source }: ScraperRow, typed: Typed): Html =>
    source.isCacheable
      ? selectOf({
          name: 'cache',
          label: 'From a cache',
          hint: 'An answer may be so old. One that comes from a cache is not charged.',
          value: typed.text('cache'),
          choices: [
            { value: '', label: 'no: fetch it anew' },
            ...cacheDays.map((days) => ({
              value: String(days),
              label: days === 1 ? '1 day' : `${days} days`,
            })),
          ],
        })
      : nothing

  const view = async (
    visit: AccountVisit,
    typed: Typed,
    problems: Problems,
    result: Html,
    body: Body | null,
  ) => {
    const row = rowOf(visit)
    const price = dollarsOfMicros(row.priceMicros)
    const health = (await deps.health.read()).get(rowName(row))
    const live = deps.scraping.stateOf(row) === 'live'
    const example = JSON.stringify(body ?? exampleBody(row))
    return {
      title: rowName(row),
      acts: html`<a href="/console/scrapers">All scrapers</a>`,
      body: html`${problemsOf(problems)}<p>${row.summary}.${row.note === null ? '' : ` ${row.note}.`}</p>
<dl class="facts">
<dt>A call costs</dt><dd><strong>$${price}</strong> ${row.isSearch ? 'and nothing where nothing fits' : 'when there is a result, or no such target'}</dd>
<dt>State</dt><dd>${scraperState(live)}</dd>
<dt>Last 24 hours</dt><dd>${healthText(health)}</dd>
<dt>Given up after</dt><dd>${row.source.timeoutMs / 1_000} seconds</dd>
<dt>Answers with</dt><dd>${row.answer.description}</dd>
</dl>
${result}
<h2>Try it</h2>
<form method="post" action="${pathOf(row)}" class="stack" novalidate>
${keyField(visit.formKey)}
${inputFields(row, typed, problems)}
${cacheField(row, typed)}
<div class="acts"><button class="first" name="do" value="call">Call it for $${price}</button> <button name="do" value="check">Check the fields, free</button></div>
</form>`,
      same: [
        `curl -X POST $SITE/v1/scrape/${rowName(row)} -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '${example.replaceAll("'", "'\\''")}'`,
        `curl -X POST "$SITE/v1/scrape/${rowName(row)}?dryRun=true" …   # checks the fields and costs nothing`,
      ],
    }
  }

  const nextPage = (visit: AccountVisit, row: ScraperRow, body: Body, bytes: Buffer, cache: string): Html => {
    const { nextCursor } = JSON.parse(bytes.toString('utf8')) as { nextCursor: string | null }
    if (nextCursor === null || row.paging === null) return nothing
    return html`<form method="post" action="${pathOf(row)}" class="inline">${keyField(visit.formKey)}${hiddenInputs(row, body, { [row.paging.input]: nextCursor })}${cache === '' ? nothing : hiddenOf('cache', cache)}<button name="do" value="call">Next page for $${dollarsOfMicros(row.priceMicros)}</button></form>`
  }

  const call = async (visit: AccountVisit, row: ScraperRow, typed: Typed, body: Body): Promise<Outcome> => {
    const { accountId } = visit.account
    const { actor } = visit.cause
    const price = dollarsOfMicros(row.priceMicros)
    if (typed.key === '') throw refuse('invalid_body', 'the form is too old: open the page again')
    if (actor.kind !== 'session') throw new Error(`a ${actor.kind} fills in no form`)
    const days = row.source.isCacheable
      ? cacheDays.find((each) => String(each) === typed.text('cache'))
      : undefined
    const waitS = (await deps.rate?.(accountId)) ?? 0
    if (waitS > 0) throw refuseUntil('rate_limited', 'too many calls; wait a moment', waitS)
    const { bytes, headers } = await deps.scrapes.call({
      accountId,
      keyId: null,
      actor,
      // Of this sending of the form: sent again, it gets the same answer and is charged once.
      requestId: `console-${typed.key}`,
      fresh: false,
      row,
      body,
      ...(days !== undefined && { maxAgeDays: days }),
    })
    const cost = costText(price, headers['x-billed'] === 'true', headers['x-replayed'] === 'true')
    const result = html`<h2>The result</h2>
<p class="said" role="status">${cost}</p>
<pre class="result" tabindex="0">${resultText(bytes)}</pre>
${nextPage(visit, row, body, bytes, typed.text('cache'))}`
    return show(await view(visit, typed, {}, result, body))
  }

  const check = async (visit: AccountVisit, row: ScraperRow, typed: Typed, body: Body): Promise<Outcome> => {
    const input = inputOf(row, body)
    const result = html`<p class="said" role="status">The fields are accepted, and nothing was charged. A call would ask this and cost $${dollarsOfMicros(row.priceMicros)}:</p>
<pre class="result" tabindex="0">${JSON.stringify(input, null, 2)}</pre>`
    return show(await view(visit, typed, {}, result, body))
  }

  const run = async (visit: AccountVisit, typed: Typed): Promise<Outcome> => {
    const row = rowOf(visit)
    const body = bodyOf(row, typed)
    const price = dollarsOfMicros(row.priceMicros)
    try {
      return await (typed.text('do') === 'call' ? call : check)(visit, row, typed, body)
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      const { code, message, status, extra } = error
      if (answers.has(code)) {
        const result = html`<h2>The result</h2>
<p class="said warn" role="status">${sentenceOf(message)} ${costText(price, billed(error), false)}</p>`
        return show(await view(visit, typed, {}, result, body))
      }
      const problems =
        code === 'bad_input' && typeof extra?.details === 'string'
          ? inputProblems(row, sentenceOf(extra.details))
          : { form: `${sentenceOf(message)} Nothing was charged.` }
      return {
        kind: 'view',
        view: await view(visit, typed, problems, nothing, body),
        status: status === 400 || status === 429 ? status : 409,
      }
    }
  }

  return [
    accountPage({
      path: '/console/scrapers/{platform}/{operation}',
      name: 'showScraper',
      summary: 'One scraper, and a form that calls it',
      show: async (visit) => show(await view(visit, untyped, {}, nothing, null)),
      act: { run },
    }),
  ]
}
