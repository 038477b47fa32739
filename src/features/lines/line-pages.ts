import { maxStickyMinutes } from '../../domain/exits/line.ts'
import { alpha2Of } from '../../kernel/countries.ts'
import { ApiError } from '../../platform/http/errors.ts'
import { refusalOf } from '../../platform/ui/answer-page.ts'
import {
  type Choice,
  emptyFormInput,
  type FormInput,
  fieldOf,
  type Problems,
  postButton,
  problemsIn,
  selectOf,
} from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  fieldTextsOf,
  fileOf,
  goTo,
  refused,
  refusedBy,
} from '../../platform/ui/page.ts'
import { isViewing } from '../../platform/ui/page-access.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { copyButton, countText, oneOf, timeText } from '../../platform/ui/text.ts'
import type { CurrentLocations } from '../exits/index.ts'
import {
  backToPlan,
  type PlanFinder,
  planCall,
  planPath,
  planStatus,
  type VerifiedPlan,
} from '../plans/index.ts'
import {
  type LineFormat,
  type LineInput,
  type LineProtocol,
  type LineService,
  lineFormats,
  lineProtocols,
  linesText,
} from './generate-lines.ts'
import { type TargetingInput, toTargetingInput } from './targeting-input.ts'
import {
  type AddToWhitelist,
  maxWhitelist,
  networkForm,
  type Whitelist,
  type WhitelistEntry,
} from './whitelist.ts'

type FieldText = (name: string) => string
type NamedLocation = { readonly code: string; readonly name: string }

const choicesWithAny = (any: string, namedLocations: readonly NamedLocation[]): readonly Choice[] => [
  { value: '', label: any },
  ...namedLocations.map(({ code, name }) => ({ value: code, label: name })),
]

/** The chosen entry of a list, or an empty text. */
const validChoice = (namedLocations: readonly NamedLocation[], text: string): string =>
  namedLocations.some(({ code }) => code === text) ? text : ''

/** The chosen location, as input of line generation. */
const readLocationFields = (text: FieldText): TargetingInput => {
  const asn = text('asn')
  return {
    ...(text('country') !== '' && { country: text('country') }),
    ...(text('state') !== '' && { state: text('state') }),
    ...(text('city') !== '' && { city: text('city') }),
    ...(text('isp') !== '' && { isp: text('isp') }),
    ...(/^\d{1,10}$/.test(asn) && { asn: Number(asn) }),
  }
}

/**
 * Fields to choose the location of lines, limited to what the product sells and to current exits: first a country, then
 * its parts. Their form has `data-quotes`, which loads the lists of another country.
 * @returns the fields and the chosen values; a region of a previously chosen country is dropped
 */
const locationPickers = async (
  {
    planFinder,
    locations,
  }: { readonly planFinder: Pick<PlanFinder, 'productOf'>; readonly locations: CurrentLocations },
  plan: VerifiedPlan,
  text: FieldText,
  problems: Problems,
): Promise<{ readonly fields: Html; readonly place: TargetingInput }> => {
  const form = { typed: emptyFormInput, problems }
  const product = planFinder.productOf(plan)
  const offeredFields = new Set<string>(product && 'generate' in product ? product.generate.targeting : [])
  if (!offeredFields.has('country')) return { fields: nothing, place: {} }
  const allLocations = await locations(product?.family ?? null)
  const country = alpha2Of(text('country')) ?? ''
  const countryLocations = allLocations.get(country)
  const countries = [...allLocations.values()]
    .map((each) => ({ code: each.country.alpha2, name: each.country.name }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
  const state = validChoice(countryLocations?.states ?? [], text('state'))
  const cities = (countryLocations?.cities ?? []).filter((city) => state === '' || city.state === state)
  const networks = (countryLocations?.asns ?? []).map(({ asn, name }) => ({
    code: String(asn),
    name: name === `AS${asn}` ? name : `AS${asn} ${name}`,
  }))
  const chosenValues = new Map([['country', countryLocations === undefined ? '' : country]])
  const locationPicker = (
    name: string,
    label: string,
    any: string,
    namedLocations: readonly NamedLocation[],
  ): Html | null => {
    if (!offeredFields.has(name) || namedLocations.length === 0) return null
    const value = validChoice(namedLocations, text(name))
    chosenValues.set(name, value)
    return selectOf({ name, label, value, choices: choicesWithAny(any, namedLocations) }, form)
  }
  const fields = html`${selectOf(
    {
      name: 'country',
      label: 'Country',
      hint: 'Countries that have exits now.',
      value: countryLocations === undefined ? '' : country,
      choices: choicesWithAny('anywhere', countries),
    },
    form,
  )}
<div id="live-places" class="group" data-live>${locationPicker('state', 'Region', 'any', countryLocations?.states ?? [])}${locationPicker('city', 'City', 'any', cities)}${locationPicker('isp', 'Provider', 'any', countryLocations?.isps ?? [])}${locationPicker('asn', 'Network', 'any', networks)}</div>`
  return { fields, place: readLocationFields((name) => chosenValues.get(name) ?? '') }
}

/** More lines than this are sent as a file, because the page would be too long. */
const maxShown = 1_000
const defaultCount = '20'
/** More lines than this are shown after "Generate" only, because each change of the form shows its lines. */
const maxLive = 100

/** Digits as a number; undefined for anything else. */
const parseInteger = (text: string): number | undefined => (/^\d{1,9}$/.test(text) ? Number(text) : undefined)

const protocolNames: Readonly<Record<LineProtocol, string>> = {
  http: 'HTTP',
  https: 'HTTPS',
  socks5: 'SOCKS5',
}
/** `custom` needs a template, which is for programs. */
const shownFormats: readonly LineFormat[] = lineFormats.filter((format) => format !== 'custom')

/** The request for the typed fields; `problems` are the invalid ones. */
const parseLineForm = (
  text: FieldText,
  place: TargetingInput,
): { readonly input: LineInput; readonly problems: Problems | null } => {
  const count = parseInteger(text('count') === '' ? defaultCount : text('count'))
  const stickyMinutes = parseInteger(text('sticky') === '' ? '0' : text('sticky'))
  const protocol = oneOf(lineProtocols, text('protocol') === '' ? 'http' : text('protocol'))
  const format = oneOf(shownFormats, text('format') === '' ? 'host:port:user:pass' : text('format'))
  return {
    input: { ...place, count, stickyMinutes, protocol, format },
    problems: problemsIn({
      count: (count === undefined || count < 1) && 'Type a whole number, 1 or more.',
      sticky:
        (stickyMinutes === undefined || stickyMinutes > maxStickyMinutes) &&
        `Type whole minutes from 0 to ${maxStickyMinutes}.`,
      protocol: protocol === undefined && `Choose one of ${lineProtocols.join(', ')}.`,
      format: format === undefined && `Choose one of ${shownFormats.join(', ')}.`,
    }),
  }
}

const lineFieldOfCode: Readonly<Record<string, string>> = {
  invalid_count: 'count',
  invalid_sticky: 'sticky',
  invalid_targeting: 'country',
}

/** The line generator of a plan. */
export const linePages = ({
  planFinder,
  locations,
  generateLines,
  tryUrl,
}: {
  readonly planFinder: PlanFinder
  readonly locations: CurrentLocations
  readonly generateLines: LineService
  /** The target of a test command for lines, e.g. a page that shows a request's address. */
  readonly tryUrl: string
}): readonly ConsolePage[] => {
  const { planOf, productOf, nameOf } = planFinder

  /** Lines, and a command and programs that use one of them. `given`: lines that were generated before. */
  const preview = async (
    visit: AccountVisit,
    plan: VerifiedPlan,
    input: LineInput,
    given: string | null,
  ): Promise<Html> => {
    if (isViewing(visit.visitor))
      return html`<p class="soft">Lines contain the password of the plan, so staff cannot see them.</p>`
    const { count = 1, stickyMinutes = 0, protocol = 'http' } = input
    try {
      const url = linesText(await generateLines(plan, { ...input, count: 1, format: 'url' }))
      const lines = given ?? (count <= maxLive ? linesText(await generateLines(plan, input)) : null)
      const programs: readonly (readonly [name: string, text: string])[] = [
        ['curl', `curl -x '${url}' ${tryUrl}`],
        [
          'Python',
          `import requests\n\nproxy = '${url}'\nprint(requests.get('${tryUrl}', proxies={'http': proxy, 'https': proxy}).text)`,
        ],
        ...(protocol === 'socks5'
          ? []
          : [
              [
                'Node.js',
                `import { fetch, ProxyAgent } from 'undici'\n\nconst dispatcher = new ProxyAgent('${url}')\nconst response = await fetch('${tryUrl}', { dispatcher })\nconsole.log(await response.text())`,
              ] as const,
            ]),
      ]
      return html`${
        lines === null
          ? html`<p>More than ${maxLive} lines are shown after "Generate".</p>`
          : html`<copy-text><label for="lines">${countText(lines.split('\n').length, 'line')}</label> ${copyButton('Copy the lines')}
<textarea id="lines" rows="10" readonly spellcheck="false">\n${lines}</textarea></copy-text>`
      }
${count > 1 && stickyMinutes === 0 ? html`<p class="soft">All lines are equal: each connection gets a new address. For ${count} different addresses, type a session length.</p>` : null}
${programs.map(
  ([name, text]) =>
    html`<copy-text><strong>${name}</strong> ${copyButton(`Copy the ${name} example`)}<pre class="result" tabindex="0">${text}</pre></copy-text>`,
)}`
    } catch (error) {
      if (!(error instanceof ApiError) || error.status >= 500) throw error
      return html`<p class="soft">${refusalOf(error).text}</p>`
    }
  }

  const view = async (visit: AccountVisit, lines: string | null): Promise<View> => {
    const plan = await planOf(visit)
    const text = fieldTextsOf(visit)
    const { problems } = visit.form
    const form = { typed: emptyFormInput, problems }
    const product = productOf(plan)
    const countLimit = product && 'generate' in product ? product.generate.maxCount : 0
    const { fields, place } = await locationPickers({ planFinder, locations }, plan, text, problems)
    const { input, problems: inputProblems } = parseLineForm(text, place)
    const status = planStatus(plan, visit.nowMs)
    const { count, stickyMinutes, protocol = 'http', format = 'host:port:user:pass' } = input
    const body = Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined))
    return {
      title: `Lines of ${nameOf(plan)}`,
      actions: backToPlan(plan),
      body: html`${status === 'active' ? nothing : html`<p class="message warn">The plan is ${status}. Its lines do not work until you top it up or buy it again.</p>`}
<live-parts><form method="post" action="${planPath(plan.planId, '/lines')}" class="stack" data-quotes novalidate>
${fields}
${fieldOf({ name: 'sticky', label: 'Session length, minutes', hint: `How long a line keeps its address, at most ${maxStickyMinutes}. 0: a new address for each connection.`, inputmode: 'numeric', maxlength: 9, value: text('sticky') || '0' }, form)}
${selectOf({ name: 'protocol', label: 'Protocol', value: protocol, choices: lineProtocols.map((value) => ({ value, label: protocolNames[value] })) }, form)}
${fieldOf({ name: 'count', label: 'Number of lines', hint: `1 to ${countLimit}. More than ${maxShown} are sent as a file.`, inputmode: 'numeric', maxlength: 9, value: text('count') || defaultCount }, form)}
${selectOf({ name: 'format', label: 'Format', value: format, choices: shownFormats.map((value) => ({ value, label: value })) }, form)}
<div class="actions"><button class="first" name="as" value="page">Generate</button> <button name="as" value="file">Download</button> <button formmethod="get">Show regions and cities</button></div>
<section id="live-preview" class="group" data-live aria-label="Lines">
${inputProblems ? html`<p class="soft">Correct the fields above.</p>` : await preview(visit, plan, { ...input, count, stickyMinutes, format }, lines)}</section>
</form></live-parts>`,
      islands: ['live-parts'],
      cliEquivalents: [
        `curl ${planCall(plan, '/generate')} -H "X-API-Key: $KEY" -H "Accept: text/plain" --json '${JSON.stringify(body)}'`,
      ],
    }
  }

  return [
    accountPage({
      path: '/console/plans/{id}/lines',
      name: 'makeLines',
      summary: 'Generates lines of a plan',
      show: (visit) => view(visit, null),
      act: {
        run: async (visit, typed) => {
          const plan = await planOf(visit)
          const { input, problems } = parseLineForm(typed.text, readLocationFields(typed.text))
          if (problems) return refused(problems)
          try {
            const generated = await generateLines(plan, input)
            const lines = linesText(generated)
            if (typed.text('as') === 'file' || generated.count > maxShown)
              return fileOf(`lines-${plan.planId}.txt`, `${lines}\n`, 'text/plain')
            return await view({ ...visit, form: { ...visit.form, typed } }, lines)
          } catch (error) {
            return refusedBy(error, lineFieldOfCode)
          }
        },
      },
    }),
  ]
}

const maxLabel = 64

/** The targeting of an entry, with the field names of line generation. */
const targetingText = ({ targeting }: WhitelistEntry): string => {
  const fieldTexts = Object.entries(targeting === null ? {} : toTargetingInput(targeting))
  return fieldTexts.length === 0
    ? 'anywhere'
    : fieldTexts.map(([name, value]) => `${name} ${value}`).join(', ')
}

const whitelistFieldOfCode: Readonly<Record<string, string>> = {
  invalid_ip: 'cidr',
  address_taken: 'cidr',
  invalid_targeting: 'country',
}

/** The addresses that use a plan without credentials. */
export const whitelistPages = ({
  planFinder,
  locations,
  whitelist,
  addToWhitelist,
}: {
  readonly planFinder: PlanFinder
  readonly locations: CurrentLocations
  readonly whitelist: Pick<Whitelist, 'list' | 'remove'>
  readonly addToWhitelist: AddToWhitelist
}): readonly ConsolePage[] => {
  const { planOf, nameOf } = planFinder

  const view = async (visit: AccountVisit): Promise<View> => {
    const plan = await planOf(visit)
    const text = fieldTextsOf(visit)
    const { problems } = visit.form
    const form = { typed: emptyFormInput, problems }
    // All entries: an account has no more on all of its plans.
    const { entries } = await whitelist.list(plan.planId, { limit: maxWhitelist, offset: 0 })
    const path = planPath(plan.planId, '/whitelist')
    const { fields } = await locationPickers({ planFinder, locations }, plan, text, problems)
    return {
      title: `Whitelist of ${nameOf(plan)}`,
      actions: backToPlan(plan),
      body: html`<p>Connections from these addresses can use the plan without credentials. An account has at most ${maxWhitelist} of them. An address can be on the whitelist of one plan only.</p>
${tableOf({
  caption: 'Addresses that need no credentials, newest first',
  rows: entries,
  empty: 'None yet.',
  columns: [
    { title: 'Network', head: true, cell: ({ cidr }) => html`<code>${cidr}</code>` },
    { title: 'Label', cell: ({ label }) => label },
    { title: 'Location', cell: targetingText },
    { title: 'Added', cell: ({ createdAt }) => timeText(createdAt) },
    { title: 'Last used', cell: ({ lastUsedAt }) => timeText(lastUsedAt) },
    {
      title: 'Action',
      cell: ({ id, cidr }) =>
        postButton(visit.form, { name: 'remove', value: id, label: 'Remove', of: cidr, action: path }),
    },
  ],
})}
<h2>Add an address</h2>
<live-parts><form method="post" action="${path}" class="stack" data-quotes novalidate>
${fieldOf({ name: 'cidr', label: 'Address or network', hint: `It is ${networkForm}. Your current address is ${visit.browser.address}.`, required: true, maxlength: 64, value: text('cidr') }, form)}
${fieldOf({ name: 'label', label: 'Label', maxlength: maxLabel, value: text('label') }, form)}
${fields}
<label class="choice"><input type="checkbox" name="move" value="yes"${text('move') === 'yes' ? { html: ' checked' } : null}> <span>Move it from another plan of mine</span></label>
<div class="actions"><button class="first">Add</button> <button formmethod="get">Show regions and cities</button></div>
</form></live-parts>`,
      islands: ['live-parts'],
      cliEquivalents: [
        `curl ${planCall(plan, '/whitelist')} -H "X-API-Key: $KEY"`,
        `curl ${planCall(plan, '/whitelist')} -H "X-API-Key: $KEY" --json '{"entries": [{"cidr": "8.8.8.8", "label": "office"}]}'`,
        `curl -X DELETE ${planCall(plan, '/whitelist/ENTRY')} -H "X-API-Key: $KEY"`,
      ],
    }
  }

  const change = async (visit: AccountVisit, { text }: FormInput) => {
    const plan = await planOf(visit)
    const { accountId } = visit.account
    const path = planPath(plan.planId, '/whitelist')
    const removed = text('remove')
    if (removed !== '') {
      const wasRemoved = await whitelist.remove({ planId: plan.planId, accountId }, removed, visit.cause)
      return goTo(path, wasRemoved ? 'The address is removed.' : 'The address was already removed.')
    }
    const [cidr, label] = [text('cidr'), text('label')]
    const problems = problemsIn({
      cidr: cidr === '' && `Type ${networkForm}.`,
      label: label.length > maxLabel && `A label has at most ${maxLabel} characters.`,
    })
    if (problems) return refused(problems)
    const targeting = readLocationFields(text)
    const entry = { cidr, label, ...(Object.keys(targeting).length > 0 && { targeting }) }
    try {
      const request = { entries: [entry], move: text('move') === 'yes' }
      await addToWhitelist(plan, accountId, request, visit.cause)
      return goTo(path, 'The address is added.')
    } catch (error) {
      const refusal = refusedBy(error, whitelistFieldOfCode)
      return error instanceof ApiError && error.code === 'invalid_ip'
        ? { ...refusal, problems: { cidr: `It must be ${networkForm}.` } }
        : refusal
    }
  }

  return [
    accountPage({
      path: '/console/plans/{id}/whitelist',
      name: 'whitelistPlan',
      summary: 'The addresses that use a plan without credentials',
      show: view,
      act: { run: change },
    }),
  ]
}
