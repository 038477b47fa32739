import { maxStickyMinutes } from '../../domain/exits/line.ts'
import { alpha2Of } from '../../kernel/countries.ts'
import { ApiError } from '../../platform/http/errors.ts'
import { refusalOf } from '../../platform/ui/answer-page.ts'
import type { Assets } from '../../platform/ui/assets.ts'
import {
  type Choice,
  emptyFormInput,
  type FormInput,
  fieldOf,
  type Problems,
  problemsOf,
  selectOf,
} from '../../platform/ui/form.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  type PageOutcome,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import { isViewing } from '../../platform/ui/page-access.ts'
import { countText } from '../../platform/ui/text.ts'
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
import type { TargetingInput } from './targeting-input.ts'

type PickerText = (name: string) => string
type NamedLocation = { readonly code: string; readonly name: string }

const choicesWithAny = (any: string, namedLocations: readonly NamedLocation[]): readonly Choice[] => [
  { value: '', label: any },
  ...namedLocations.map(({ code, name }) => ({ value: code, label: name })),
]

/** The chosen entry of a list, or an empty text. */
const validChoice = (namedLocations: readonly NamedLocation[], text: string): string =>
  namedLocations.some(({ code }) => code === text) ? text : ''

/** The chosen location, as input of line generation. */
export const readLocationFields = (text: PickerText): TargetingInput => {
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
 * its parts. Their form has `data-asks`, which loads the lists of another country.
 * @returns the fields and the chosen values; a region of a previously chosen country is dropped
 */
export const locationPickers = async (
  {
    planFinder,
    locations,
  }: { readonly planFinder: Pick<PlanFinder, 'productOf'>; readonly locations: CurrentLocations },
  plan: VerifiedPlan,
  text: PickerText,
  problems: Problems,
): Promise<{ readonly fields: Html; readonly place: TargetingInput }> => {
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
    return selectOf({ name, label, value, choices: choicesWithAny(any, namedLocations) }, problems)
  }
  const fields = html`${selectOf(
    {
      name: 'country',
      label: 'Country',
      hint: 'Where lines go out: the countries that have exits now.',
      value: countryLocations === undefined ? '' : country,
      choices: choicesWithAny('anywhere', countries),
    },
    problems,
  )}
<div id="live-places" class="group" data-live>${locationPicker('state', 'Region', 'any', countryLocations?.states ?? [])}${locationPicker('city', 'City', 'any', cities)}${locationPicker('isp', 'Provider', 'any', countryLocations?.isps ?? [])}${locationPicker('asn', 'Network', 'any', networks)}</div>`
  return { fields, place: readLocationFields((name) => chosenValues.get(name) ?? '') }
}

/** More lines than this are sent as a file, because the page would be too long. */
const maxShown = 1_000
const defaultCount = '10'

/** Digits as a number; undefined for anything else. */
const parseInteger = (text: string): number | undefined => (/^\d{1,9}$/.test(text) ? Number(text) : undefined)

const oneOf = <const Word extends string>(allowed: readonly Word[], text: string): Word | undefined =>
  allowed.find((word) => word === text)

const protocolNames: Readonly<Record<LineProtocol, string>> = {
  http: 'HTTP',
  https: 'HTTPS',
  socks5: 'SOCKS5',
}
/** `custom` needs a template, which is for programs. */
const shownFormats: readonly LineFormat[] = lineFormats.filter((format) => format !== 'custom')

type Text = (name: string) => string

/** The request for the typed fields; `problems` are the invalid ones. */
const parseLineForm = (
  text: Text,
  place: TargetingInput,
): { readonly asked: LineInput; readonly problems: Problems } => {
  const count = parseInteger(text('count') === '' ? defaultCount : text('count'))
  const stickyMinutes = parseInteger(text('sticky') === '' ? '0' : text('sticky'))
  const protocol = oneOf(lineProtocols, text('protocol') === '' ? 'http' : text('protocol'))
  const format = oneOf(shownFormats, text('format') === '' ? 'host:port:user:pass' : text('format'))
  return {
    asked: { ...place, count, stickyMinutes, protocol, format },
    problems: {
      ...((count === undefined || count < 1) && { count: 'Type a whole number, 1 or more.' }),
      ...((stickyMinutes === undefined || stickyMinutes > maxStickyMinutes) && {
        sticky: `Type whole minutes from 0 to ${maxStickyMinutes}.`,
      }),
      ...(protocol === undefined && { protocol: `Choose one of ${lineProtocols.join(', ')}.` }),
      ...(format === undefined && { format: `Choose one of ${shownFormats.join(', ')}.` }),
    },
  }
}

const fieldOfCode: Readonly<Record<string, string>> = {
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
  island,
}: {
  readonly planFinder: PlanFinder
  readonly locations: CurrentLocations
  readonly generateLines: LineService
  /** The target of a test command for lines, e.g. a page that shows a request's address. */
  readonly tryUrl: string
  readonly island: Assets['island']
}): readonly ConsolePage[] => {
  const { planOf, productOf, nameOf } = planFinder

  /** An example line in a command to try it. */
  const preview = async (visit: AccountVisit, plan: VerifiedPlan, lineInput: LineInput): Promise<Html> => {
    if (isViewing(visit.visitor))
      return html`<p class="soft">Lines hold the password of the plan: staff does not see them.</p>`
    try {
      const generated = await generateLines(plan, { ...lineInput, count: 1, format: 'url' })
      return html`<pre class="result" tabindex="0">curl -x '${linesText(generated)}' ${tryUrl}</pre>`
    } catch (error) {
      if (!(error instanceof ApiError) || error.status >= 500) throw error
      return html`<p class="soft">${refusalOf(error).text}</p>`
    }
  }

  const view = async (
    visit: AccountVisit,
    plan: VerifiedPlan,
    text: Text,
    { problems = {}, lines = null }: { readonly problems?: Problems; readonly lines?: string | null },
  ) => {
    const product = productOf(plan)
    const countLimit = product && 'generate' in product ? product.generate.maxCount : 0
    const { fields, place } = await locationPickers({ planFinder, locations }, plan, text, problems)
    const { asked: lineInput, problems: inputProblems } = parseLineForm(text, place)
    const status = planStatus(plan, visit.nowMs)
    const { count, stickyMinutes, protocol = 'http', format = 'host:port:user:pass' } = lineInput
    const body = Object.fromEntries(Object.entries(lineInput).filter(([, value]) => value !== undefined))
    return {
      title: `Lines of ${nameOf(plan)}`,
      acts: backToPlan(plan),
      body: html`${problemsOf(problems)}${status === 'active' ? nothing : html`<p class="said warn">The plan is ${status}: its lines pass nothing until it is topped up or bought again.</p>`}${
        lines === null
          ? nothing
          : html`<section aria-label="Lines"><copy-text><label for="lines">${countText(lines.split('\n').length, 'line')}</label> <button type="button" hidden>Copy</button>
<textarea id="lines" rows="10" readonly spellcheck="false">\n${lines}</textarea></copy-text></section>`
      }
<live-parts><form method="post" action="${planPath(plan.planId, '/lines')}" class="stack" data-asks novalidate>
${fields}
${fieldOf({ name: 'sticky', label: 'Minutes that a line keeps its address', hint: `Up to ${maxStickyMinutes}; 0: another address for each connection.`, inputmode: 'numeric', maxlength: 9, value: text('sticky') === '' ? '0' : text('sticky') }, emptyFormInput, problems)}
${selectOf({ name: 'protocol', label: 'Protocol', value: protocol, choices: lineProtocols.map((value) => ({ value, label: protocolNames[value] })) }, problems)}
${fieldOf({ name: 'count', label: 'How many', hint: `1 to ${countLimit}. More than ${maxShown} come as a file.`, inputmode: 'numeric', maxlength: 9, value: text('count') === '' ? defaultCount : text('count') }, emptyFormInput, problems)}
${selectOf({ name: 'format', label: 'Format', value: format, choices: shownFormats.map((value) => ({ value, label: value })) }, problems)}
<section id="live-preview" data-live aria-live="polite" aria-label="One of them, to try"><h2>One of them, to try</h2>
${Object.keys(inputProblems).length > 0 ? html`<p class="soft">See the fields.</p>` : await preview(visit, plan, { ...lineInput, count, stickyMinutes })}</section>
<div class="acts"><button class="first" name="as" value="page">Generate</button> <button name="as" value="file">Download</button> <button formmethod="get">Show regions and cities</button></div>
</form></live-parts>`,
      scripts: [island('live-parts'), island('copy-text')],
      same: [
        `curl ${planCall(plan, '/generate')} -H "X-API-Key: $KEY" -H "Accept: text/plain" --json '${JSON.stringify(body)}'`,
      ],
    }
  }

  const generate = async (visit: AccountVisit, typed: FormInput): Promise<PageOutcome> => {
    const plan = await planOf(visit)
    const { asked: lineInput, problems } = parseLineForm(typed.text, readLocationFields(typed.text))
    if (Object.keys(problems).length > 0)
      return refusedView(await view(visit, plan, typed.text, { problems }))
    try {
      const generated = await generateLines(plan, lineInput)
      const lines = linesText(generated)
      if (typed.text('as') === 'file' || generated.count > maxShown)
        return {
          kind: 'file',
          name: `lines-${plan.planId}.txt`,
          mediaType: 'text/plain',
          content: `${lines}\n`,
        }
      return show(await view(visit, plan, typed.text, { lines }))
    } catch (error) {
      const { text, status } = refusalOf(error)
      const field = fieldOfCode[(error as ApiError).code] ?? 'form'
      return refusedView(await view(visit, plan, typed.text, { problems: { [field]: text } }), status)
    }
  }

  return [
    accountPage({
      path: '/console/plans/{id}/lines',
      name: 'makeLines',
      summary: 'Generates lines of a plan',
      show: async (visit) =>
        show(await view(visit, await planOf(visit), (name) => visit.query.get(name)?.trim() ?? '', {})),
      act: { run: generate },
    }),
  ]
}
