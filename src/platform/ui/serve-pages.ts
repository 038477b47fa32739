import { z } from 'zod'
import type { Clock } from '../../kernel/clock.ts'
import { ApiError } from '../http/errors.ts'
import { type ApiRequest, type Route, route } from '../http/route.ts'
import { newSecret } from '../vault/secrets.ts'
import {
  assetRoute,
  frameContext,
  notFound,
  type PageAnswer,
  pageHeaders,
  pageResponses,
  standalonePage,
} from './answer-page.ts'
import type { Assets } from './assets.ts'
import {
  dropCookie,
  flashCookie,
  flashOf,
  isOwnForm,
  readCookies,
  requestOriginOf,
  wantedOf,
} from './cookies.ts'
import { type FormInput, newFormState, parseFormInput, problemsOf } from './form.ts'
import { framed, type Theme, type View } from './frame.ts'
import { html } from './html.ts'
import { createNavigation, type NavigationGroup } from './navigation.ts'
import {
  type AccountVisit,
  type ConsolePage,
  displayNameOf,
  type FormRefusal,
  type PageOutcome,
  type PersonVisit,
  type Session,
  type Sessions,
  sessionCause,
  type Visit,
  type Visitor,
} from './page.ts'
import { checkFormAccess, checkPageAccess, isViewing, type SingleUse } from './page-access.ts'
import { zoneOf } from './text.ts'

type ServeDependencies = {
  readonly sessions: Pick<Sessions, 'find'>
  readonly visitorOf: (session: Session, requestId: string) => Promise<Visitor | null>
  readonly once: SingleUse
  readonly assets: Assets
  readonly navigation: readonly NavigationGroup[]
  readonly clock: Clock
  /** The address of the console, e.g. `https://shop.example`. */
  readonly origin: () => string
  /** The address of the API. */
  readonly site: () => string
  /** The name of the service. */
  readonly name: string
}

type Request = ApiRequest

const themeOf = (value: string | null): Theme => (value === 'light' || value === 'dark' ? value : null)

const paramsOf = (path: string): z.ZodObject | undefined => {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
  return names.length === 0
    ? undefined
    : z.object(Object.fromEntries(names.map((name) => [name, z.string().max(200)])))
}

const outcomeOf = (result: View | PageOutcome): PageOutcome =>
  'kind' in result ? result : { kind: 'view', view: result }

/** The query as it was sent. Pages read their own fields and ignore all others. */
const anyQuery = z.looseObject({})

const queryOf = (query: unknown): URLSearchParams => {
  const all = new URLSearchParams()
  for (const [name, value] of Object.entries(query as Record<string, unknown>))
    if (typeof value === 'string') all.append(name, value)
  return all
}

const unknownHostPage = (dependencies: ServeDependencies): PageAnswer => ({
  status: 421,
  headers: pageHeaders,
  text: framed(
    standalonePage(
      'The console has another address',
      html`<p>It is at <a href="${dependencies.origin()}/console">${dependencies.origin()}/console</a>.</p>
<p class="soft">Operators set it with FAREBOX_CONSOLE_URL.</p>`,
    ),
    frameContext(dependencies),
  ),
})

/**
 * Creates the HTTP routes of pages. They check who may see a page and where a form comes from, and set headers and
 * cookies.
 */
export const consoleRoutes = (
  pages: readonly ConsolePage[],
  dependencies: ServeDependencies,
): readonly Route[] => {
  const visitOf = (page: ConsolePage, request: Request, visitor: Visitor | null): Visit => {
    const cookies = readCookies(request.headers.cookie)
    const params = request.params as Record<string, string>
    return {
      path: page.path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? '')),
      params,
      query: queryOf(request.query),
      visitor,
      browser: { userAgent: request.headers['user-agent'] ?? '', address: request.address },
      signInRequestSecret: cookies.asking,
      wanted: wantedOf(cookies.wanted),
      theme: themeOf(cookies.theme),
      zone: zoneOf(cookies.zone),
      requestId: request.requestId,
      nowMs: dependencies.clock(),
      form: newFormState(newSecret()),
    }
  }

  const navigationOf = createNavigation(pages, dependencies.navigation)

  const answerView = (
    page: ConsolePage,
    view: View,
    visit: Visit,
    flash: string | null,
    status: PageAnswer['status'],
    cookies: readonly string[],
  ): PageAnswer => {
    const { visitor } = visit
    const pageContext = frameContext(dependencies, {
      theme: visit.theme,
      zone: visit.zone,
      path: visit.path,
      flash,
      navigation: navigationOf(page, visit.path, visitor),
      origin: dependencies.origin(),
      site: dependencies.site(),
      ...(visitor && {
        person: displayNameOf(visitor),
        isStaff: visitor.roles.has('finance') || visitor.roles.has('operator'),
        viewing: isViewing(visitor) ? (visitor.account?.email ?? visitor.session.viewing) : null,
      }),
    })
    return {
      status,
      headers: { ...pageHeaders, ...(cookies.length > 0 && { 'set-cookie': cookies }) },
      text: framed(view, pageContext),
    }
  }

  const answerOf = (
    page: ConsolePage,
    outcome: PageOutcome,
    visit: Visit,
    flash: string | null,
  ): PageAnswer => {
    const cookies = [...(outcome.cookies ?? []), ...(flash === null ? [] : [dropCookie('flash')])]
    switch (outcome.kind) {
      case 'view':
        return answerView(page, outcome.view, visit, flash, outcome.status ?? 200, cookies)
      case 'redirect': {
        const setCookies =
          outcome.flash === undefined
            ? (outcome.cookies ?? [])
            : [...(outcome.cookies ?? []), flashCookie(outcome.flash)]
        return {
          status: 303,
          headers: {
            ...pageHeaders,
            location: outcome.to,
            ...(setCookies.length > 0 && { 'set-cookie': setCookies }),
          },
        }
      }
      case 'file':
        return {
          status: 200,
          headers: {
            ...pageHeaders,
            'content-disposition': `attachment; filename="${outcome.name}"`,
            ...(cookies.length > 0 && { 'set-cookie': cookies }),
          },
          text: outcome.content,
          mediaType: outcome.mediaType,
        }
      default:
        return outcome satisfies never
    }
  }

  /** The visit with all fields that the page needs. The type of the page was checked at its declaration. */
  const completeVisit = (visit: Visit): never => {
    const { visitor } = visit
    const fullVisit: Visit | PersonVisit | AccountVisit =
      visitor === null
        ? visit
        : {
            ...visit,
            visitor,
            cause: sessionCause(visitor.session, visit.requestId),
            ...(visitor.account && { account: visitor.account }),
          }
    return fullVisit as never
  }

  const findVisitor = async (request: Request): Promise<Visitor | null> => {
    const session = await dependencies.sessions.find(readCookies(request.headers.cookie).session)
    return session && dependencies.visitorOf(session, request.requestId)
  }

  /** The page of a refused form, with the typed values. The problems are listed above it. */
  const refusedOutcome = async (
    page: ConsolePage,
    visit: Visit,
    typed: FormInput,
    { problems, message, status }: FormRefusal,
  ): Promise<PageOutcome> => {
    const form = { ...visit.form, typed, problems, message }
    const outcome = outcomeOf(await page.show!(completeVisit({ ...visit, form })))
    if (outcome.kind !== 'view') return outcome
    const { view } = outcome
    const body = html`${message ?? problemsOf(problems)}${view.body}`
    return { kind: 'view', view: { ...view, body }, status }
  }

  const notFoundOutcome = (error: unknown): PageOutcome => {
    if (error instanceof ApiError && error.code === 'not_found')
      return { kind: 'view', view: notFound, status: 404 }
    throw error
  }

  const get = async (page: ConsolePage, request: Request): Promise<PageAnswer> => {
    const requestOrigin = requestOriginOf(request.headers, dependencies.origin())
    if (requestOrigin === 'strange') return unknownHostPage(dependencies)
    const visit = visitOf(page, request, requestOrigin === 'here' ? await findVisitor(request) : null)
    if (requestOrigin === 'elsewhere') {
      const query = visit.query.size === 0 ? '' : `?${visit.query}`
      return {
        status: 307,
        headers: { ...pageHeaders, location: `${dependencies.origin()}${visit.path}${query}` },
      }
    }
    const flash = flashOf(readCookies(request.headers.cookie).flash)
    const blockingOutcome = checkPageAccess(page, visit)
    if (blockingOutcome !== null) return answerOf(page, blockingOutcome, visit, null)
    return answerOf(
      page,
      outcomeOf(await page.show!(completeVisit(visit)).catch(notFoundOutcome)),
      visit,
      flash,
    )
  }

  const post = async (page: ConsolePage, request: Request): Promise<PageAnswer> => {
    if (requestOriginOf(request.headers, dependencies.origin()) !== 'here')
      return unknownHostPage(dependencies)
    if (!isOwnForm(request.headers, dependencies.origin()))
      return answerOf(
        page,
        {
          kind: 'view',
          status: 403,
          view: standalonePage(
            'This form came from elsewhere',
            html`<p>Nothing was changed. Only pages of the console may send forms.</p><p><a href="/console">Go to the console</a></p>`,
          ),
        },
        visitOf(page, request, null),
        null,
      )
    const visit = visitOf(page, request, await findVisitor(request))
    const typed = parseFormInput(request.raw)
    const result =
      (await checkFormAccess(page, visit, typed, dependencies.once)) ??
      (await page.act!.run(completeVisit(visit), typed as never).catch(notFoundOutcome))
    const outcome =
      'kind' in result && result.kind === 'refused'
        ? await refusedOutcome(page, visit, typed, result).catch(notFoundOutcome)
        : outcomeOf(result)
    return answerOf(page, outcome, visit, null)
  }

  const routeOf = (
    page: ConsolePage,
    method: 'GET' | 'POST',
    handle: (page: ConsolePage, request: Request) => Promise<PageAnswer>,
  ): Route => {
    const params = paramsOf(page.path)
    const file = page.path.endsWith('.csv')
      ? 'text/csv'
      : page.path.endsWith('.json')
        ? 'application/json'
        : null
    return route({
      method,
      path: page.path,
      operationId: method === 'GET' ? page.name : `${page.name}Act`,
      summary: page.summary,
      description: 'A page of the console.',
      tag: 'Console',
      access: 'public',
      writes: false,
      hidden: true,
      ...(params && { params }),
      query: anyQuery,
      ...(method === 'POST' && { form: true as const }),
      responses: file
        ? {
            ...pageResponses,
            200: { description: 'The file.', text: { mediaType: file, example: '' } },
          }
        : pageResponses,
      errors: [],
      handler: async (request) => (await handle(page, request as unknown as Request)) as never,
    })
  }

  return [
    ...pages.flatMap((page) => [
      ...(page.show ? [routeOf(page, 'GET', get)] : []),
      ...(page.act ? [routeOf(page, 'POST', post)] : []),
    ]),
    assetRoute(dependencies),
  ]
}
