import { acceptedOf } from '../../domain/scrapers/check-input.ts'
import { placedFieldsOf } from '../../domain/scrapers/sample.ts'
import {
  exampleBody,
  type Input,
  type InputValue,
  rowName,
  type ScraperRow,
} from '../../domain/scrapers/scraper.ts'
import { scraperOf } from '../../domain/scrapers/scraper-table.ts'
import { dollarsOfMicros } from '../../kernel/money.ts'
import type { ErrorCode } from '../../platform/http/errors.ts'
import { ApiError, refuse, refuseWithRetryAfter } from '../../platform/http/errors.ts'
import { formRefusalText, toSentence } from '../../platform/ui/answer-page.ts'
import {
  choicesOf,
  emptyFormInput,
  type FormInput,
  type FormState,
  fieldOf,
  hiddenOf,
  keyField,
  type Problems,
  selectOf,
} from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  type FormRefusal,
  refused,
} from '../../platform/ui/page.ts'
import { detailsOf, tableOf } from '../../platform/ui/table.ts'
import { countText, stateText } from '../../platform/ui/text.ts'
import { answerOf } from './call-answer.ts'
import type { ScrapeRate } from './call-rate.ts'
import type { Health, ScraperHealth } from './provider-health.ts'
import { cacheDays, type Scraping } from './provider-port.ts'
import { sampleAnswer } from './sample-answer.ts'
import { inputOf, type Scrapes } from './scrape.ts'

/** The form field name of an input. The prefix avoids collisions with fields of the page frame. */
export const fieldName = ({ name }: Pick<Input, 'name'>): string => `in-${name}`

const hintOf = (input: Input, isRequired: boolean): string =>
  [
    `${input.description}.`,
    ...(input.values || input.kind === 'boolean' ? [] : [`It must be ${acceptedOf(input)}.`]),
    isRequired ? 'Required.' : input.default === undefined ? 'Optional.' : `Default: ${input.default}.`,
  ].join(' ')

const controlOf = (row: ScraperRow, input: Input, form: FormState): Html => {
  const name = fieldName(input)
  const example = exampleBody(row)[input.name]
  const exampleText = example === undefined ? '' : String(example)
  const hint = hintOf(input, input.required)
  if (input.kind === 'boolean')
    return choicesOf(
      { name, legend: input.name, chosen: [], choices: [{ value: 'true', label: 'yes', hint }] },
      form,
    )
  if (input.values)
    return selectOf(
      {
        name,
        label: input.name,
        hint,
        value: exampleText,
        choices: [
          ...(input.required ? [] : [{ value: '', label: 'default' }]),
          ...input.values.map((value) => ({ value: String(value), label: String(value) })),
        ],
      },
      form,
    )
  return fieldOf({ name, label: input.name, hint, value: exampleText }, form)
}

/** The form fields of a scraper, generated from its row. They start with a valid example. */
export const inputFields = (row: ScraperRow, form: FormState): Html =>
  html`${
    row.oneOf.length === 0
      ? nothing
      : html`${row.oneOf.map((names) => html`<p class="soft">At least one of ${names.join(', ')} must be given.</p>\n`)}`
  }${row.inputs.map((input) => html`${controlOf(row, input, form)}\n`)}`

const parseValue = (input: Input, text: string): InputValue => {
  if (input.kind === 'boolean') return text === 'true'
  if (input.values) return input.values.find((value) => String(value) === text) ?? text
  return input.kind === 'integer' && /^-?\d{1,15}$/.test(text) ? Number(text) : text
}

/** The request body from the typed values, without empty fields. Not validated here. */
export const bodyOf = (row: ScraperRow, typed: FormInput): Readonly<Record<string, InputValue>> =>
  Object.fromEntries(
    row.inputs.flatMap((input) => {
      const text = typed.text(fieldName(input))
      return text === '' ? [] : [[input.name, parseValue(input, text)]]
    }),
  )

/** Shows a body refusal next to the field that it names, else above the form. */
export const inputProblems = (row: ScraperRow, details: string): Problems => {
  const [word = ''] = details.split(/[ :]/)
  const matchedInput = row.inputs.find(({ name }) => name === word)
  return { [matchedInput ? fieldName(matchedInput) : 'form']: details }
}

/** The typed values as hidden fields, with one input changed. */
export const hiddenInputs = (
  row: ScraperRow,
  body: Readonly<Record<string, InputValue>>,
  changed: Readonly<Record<string, InputValue>>,
): Html =>
  html`${row.inputs.map((input) => {
    const value = changed[input.name] ?? body[input.name]
    return value === undefined ? nothing : hiddenOf(fieldName(input), String(value))
  })}`

export const scraperState = (isLive: boolean): Html =>
  isLive ? stateText('available', 'good') : stateText('unavailable', 'off')

const percent = (share: number): string => `${(share * 100).toFixed(1).replace(/\.0$/, '')} %`

/** The health of a scraper in one line. */
export const healthText = (health: Health | undefined): string => {
  if (health === undefined || health.calls === 0) return 'not called'
  const { calls, successShare, p50Ms, p95Ms } = health
  return [
    `${countText(calls, 'call')}, ${successShare === null ? 'none' : percent(successShare)} successful`,
    ...(p50Ms === null ? [] : [`median ${p50Ms} ms`]),
    ...(p95Ms === null ? [] : [`95th percentile ${p95Ms} ms`]),
  ].join(', ')
}

type PlaygroundServices = {
  readonly scraping: Pick<Scraping, 'stateOf'>
  readonly health: Pick<ScraperHealth, 'read'>
  readonly scrapes: Pick<Scrapes, 'call' | 'requireProvider'>
  /** Null: limits are off. */
  readonly rate: ScrapeRate | null
}

type Body = Readonly<Record<string, InputValue>>

/** Characters of a result on a page. */
const maxShown = 60_000

/** A readable result: the received JSON with line breaks. */
const resultText = (bytes: Buffer): string => {
  const formatted = JSON.stringify(JSON.parse(bytes.toString('utf8')), null, 2)
  return formatted.length <= maxShown
    ? formatted
    : `${formatted.slice(0, maxShown)}\n… and ${formatted.length - maxShown} more characters: use the API to get all of it`
}

/** Outcomes that are answers of the platform, not faults. */
const answers: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['target_not_found', 'target_restricted'])

const billed = ({ headers }: Pick<ApiError, 'headers'>): boolean => headers?.['x-billed'] === 'true'

const costText = (price: string, charged: boolean, replayed: boolean): string => {
  if (replayed) return charged ? `$${price} were charged before, and nothing now.` : 'Nothing was charged.'
  return charged ? `$${price} were charged.` : 'Nothing was charged.'
}

/** The known fields of an answer, and a sample. */
const answerFields = (row: ScraperRow): Html => html`<details><summary>Fields of the answer</summary>
${tableOf({
  caption: 'Fields of data',
  rows: placedFieldsOf(row),
  columns: [
    { title: 'Field', head: true, cell: ({ path }) => html`<code>${path}</code>` },
    { title: 'Type', place: 'lead', cell: ({ type }) => type },
    {
      title: 'Meaning',
      place: 'plain',
      cell: ({ meaning, unit }) => (unit === null ? meaning : `${meaning} (${unit})`),
    },
  ],
})}</details>
<details><summary>A sample answer</summary>
<pre class="result" tabindex="0">${JSON.stringify(sampleAnswer(row), null, 2)}</pre></details>`

/** The page of one scraper: its price, its health, and a form that calls it. */
export const playgroundPages = ({
  scraping,
  health: scraperHealth,
  scrapes,
  rate,
}: PlaygroundServices): readonly ConsolePage[] => {
  const rowOf = ({ params }: AccountVisit): ScraperRow => {
    const row = scraperOf(params.platform ?? '', params.operation ?? '')
    if (row === null) throw refuse('not_found', 'no scraper has this platform and operation')
    return row
  }

  const pathOf = (row: ScraperRow): string => `/console/scrapers/${rowName(row)}`

  const cacheField = ({ source }: ScraperRow, form: FormState): Html | null =>
    source.isCacheable
      ? selectOf(
          {
            name: 'cache',
            label: 'Cache',
            hint: 'The maximum age of a cached answer. Cached answers are free.',
            choices: [
              { value: '', label: 'none: fetch it again' },
              ...cacheDays.map((days) => ({ value: String(days), label: countText(days, 'day') })),
            ],
          },
          form,
        )
      : null

  const view = async (visit: AccountVisit, result: Html | null): Promise<View> => {
    const { form } = visit
    const row = rowOf(visit)
    const price = dollarsOfMicros(row.priceMicros)
    const health = (await scraperHealth.read()).get(rowName(row))
    const isLive = scraping.stateOf(row) === 'live'
    const body = form.typed === emptyFormInput ? exampleBody(row) : bodyOf(row, form.typed)
    return {
      title: rowName(row),
      actions: html`<a href="/console/scrapers">All scrapers</a>`,
      body: html`<p>${row.summary}.${row.note === null ? '' : ` ${row.note}.`}</p>
${detailsOf([
  [
    'Price per call',
    html`<strong>$${price}</strong> ${row.isSearch ? 'free without a match' : 'if there is a result, or the target does not exist'}`,
  ],
  ['State', scraperState(isLive)],
  ['Last 24 hours', healthText(health)],
  ['Timeout', `${row.source.timeoutMs / 1_000} seconds`],
  ['Response', row.answer.description],
])}
${answerFields(row)}
${result}
<h2>Try it</h2>
<form method="post" action="${pathOf(row)}" class="stack" novalidate>
${keyField(form.key)}
${inputFields(row, form)}
${cacheField(row, form)}
<div class="actions"><button class="first" name="do" value="call">Call for $${price}</button> <button name="do" value="check">Check the fields, free</button></div>
</form>`,
      cliEquivalents: [
        `curl -X POST $SITE/v1/scrape/${rowName(row)} -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`,
        `curl -X POST "$SITE/v1/scrape/${rowName(row)}?dryRun=true" …   # checks the fields and costs nothing`,
      ],
    }
  }

  const nextPage = (visit: AccountVisit, row: ScraperRow, body: Body, bytes: Buffer, cache: string): Html => {
    const { nextCursor } = JSON.parse(bytes.toString('utf8')) as { nextCursor: string | null }
    if (nextCursor === null || row.paging === null) return nothing
    return html`<form method="post" action="${pathOf(row)}" class="inline">${keyField(visit.form.key)}${hiddenInputs(row, body, { [row.paging.input]: nextCursor })}${cache === '' ? nothing : hiddenOf('cache', cache)}<button name="do" value="call">Next page for $${dollarsOfMicros(row.priceMicros)}</button></form>`
  }

  const call = async (visit: AccountVisit, row: ScraperRow, typed: FormInput, body: Body): Promise<View> => {
    const { accountId } = visit.account
    const { actor } = visit.cause
    const price = dollarsOfMicros(row.priceMicros)
    if (typed.key === '') throw refuse('invalid_body', 'the form has expired; open the page again')
    if (actor.kind !== 'session') throw new Error(`a ${actor.kind} fills in no form`)
    const days = row.source.isCacheable
      ? cacheDays.find((each) => String(each) === typed.text('cache'))
      : undefined
    const waitS = (await rate?.take(accountId))?.waitS ?? 0
    if (waitS > 0) throw refuseWithRetryAfter('rate_limited', 'too many calls; wait a moment', waitS)
    const finishedCall = await scrapes.call({
      accountId,
      keyId: null,
      actor,
      // Unique to this submission of the form: submitted again, it gets the same answer and is charged once.
      requestId: `console-${typed.key}`,
      fresh: false,
      row,
      body,
      ...(days !== undefined && { maxAgeDays: days }),
    })
    const { bytes } = answerOf(finishedCall)
    const cost = costText(price, finishedCall.billed, finishedCall.replayed)
    const result = html`<h2>Result</h2>
<p class="message" role="status">${cost}</p>
<pre class="result" tabindex="0">${resultText(bytes)}</pre>
${nextPage(visit, row, body, bytes, typed.text('cache'))}`
    return view(visit, result)
  }

  const check = async (visit: AccountVisit, row: ScraperRow, body: Body): Promise<View> => {
    const input = inputOf(row, body)
    scrapes.requireProvider(row)
    const result = html`<p class="message" role="status">The fields are valid, and nothing was charged. A call costs $${dollarsOfMicros(row.priceMicros)} and sends this:</p>
<pre class="result" tabindex="0">${JSON.stringify(input, null, 2)}</pre>`
    return view(visit, result)
  }

  const run = async (visit: AccountVisit, typed: FormInput): Promise<View | FormRefusal> => {
    const row = rowOf(visit)
    const body = bodyOf(row, typed)
    const filledVisit = { ...visit, form: { ...visit.form, typed } }
    try {
      return typed.text('do') === 'call'
        ? await call(filledVisit, row, typed, body)
        : await check(filledVisit, row, body)
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      const { code, message, status, extra } = error
      if (answers.has(code)) {
        const cost = costText(dollarsOfMicros(row.priceMicros), billed(error), false)
        return view(
          filledVisit,
          html`<h2>Result</h2>
<p class="message warn" role="status">${toSentence(message)} ${cost}</p>`,
        )
      }
      return refused(
        code === 'bad_input' && typeof extra?.details === 'string'
          ? inputProblems(row, toSentence(extra.details))
          : { form: `${formRefusalText(error)} Nothing was charged now.` },
        status === 400 || status === 429 ? status : 409,
      )
    }
  }

  return [
    accountPage({
      path: '/console/scrapers/{platform}/{operation}',
      name: 'showScraper',
      summary: 'One scraper, and a form that calls it',
      show: (visit) => view(visit, null),
      act: { run },
    }),
  ]
}
