import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { type AccountId, newId } from '../../src/kernel/ids.ts'
import { done } from './app-actions.ts'
import { operator } from './operator.ts'
import type { TestApp } from './test-app.ts'
import { until } from './until.ts'

export type Page = {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly html: string
  /** Where a redirect leads, as a path; null for none. */
  readonly to: string | null
}

type Sent = {
  readonly headers?: Readonly<Record<string, string>>
  /** False sends what no page of ours sends along. */
  readonly own?: boolean
}

/** A browser without script: it stores cookies, and sends the origin of a form. */
export type Browser = {
  readonly cookies: Map<string, string>
  get(path: string, sent?: Sent): Promise<Page>
  /** Sends a form; `follow` follows its redirect. */
  post(path: string, form?: Readonly<Record<string, string | readonly string[]>>, sent?: Sent): Promise<Page>
  /** Follows redirects to a page. */
  open(path: string): Promise<Page>
}

/** Where the console of a service in a test is. */
export const consoleOrigin = ({ baseUrl }: Pick<TestApp, 'baseUrl'>): string =>
  `http://localhost:${new URL(baseUrl).port}`

export const consoleBrowser = (app: Pick<TestApp, 'baseUrl'>): Browser => {
  const cookies = new Map<string, string>()
  const origin = consoleOrigin(app)
  const { port } = new URL(origin)

  const keep = (lines: readonly string[] | undefined): void => {
    for (const line of lines ?? []) {
      const [pair = '', ...attributes] = line.split('; ')
      const [name = '', value = ''] = pair.split('=')
      if (attributes.includes('Max-Age=0')) cookies.delete(name)
      else cookies.set(name, value)
    }
  }

  const send = async (
    method: string,
    path: string,
    body: string | null,
    { headers = {}, own = true }: Sent,
  ): Promise<Page> => {
    const outgoing = httpRequest({
      host: '127.0.0.1',
      port,
      method,
      path,
      headers: {
        host: new URL(origin).host,
        ...(cookies.size > 0 && {
          cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; '),
        }),
        ...(own && { 'sec-fetch-site': 'same-origin', ...(method === 'POST' && { origin }) }),
        ...(body !== null && {
          'content-type': 'application/x-www-form-urlencoded',
          'content-length': String(Buffer.byteLength(body)),
        }),
        ...headers,
      },
    })
    outgoing.end(body ?? undefined)
    const [answer] = await once(outgoing, 'response')
    // As it came: a decoder would leave out the byte order mark of a file.
    const html = (await buffer(answer)).toString('utf8')
    keep(answer.headers['set-cookie'])
    const { location } = answer.headers
    return {
      status: answer.statusCode,
      headers: answer.headers,
      html,
      to: location === undefined ? null : location.replace(origin, ''),
    }
  }

  const browser: Browser = {
    cookies,
    get: (path, sent = {}) => send('GET', path, null, sent),
    post: (path, form = {}, sent = {}) => {
      const fields = new URLSearchParams()
      for (const [name, values] of Object.entries(form))
        for (const value of Array.isArray(values) ? values : [values]) fields.append(name, String(value))
      return send('POST', path, fields.toString(), sent)
    },
    open: async (path) => {
      let page = await browser.get(path)
      for (let steps = 0; page.to !== null && steps < 5; steps += 1) page = await browser.get(page.to)
      return page
    },
  }
  return browser
}

/** The value of a hidden field of a page. */
export const hiddenField = ({ html }: Page, name: string): string =>
  new RegExp(`<input type="hidden" name="${name}" value="([^"]*)">`).exec(html)?.[1] ?? ''

type Letter = {
  readonly to: readonly string[]
  readonly subject: string
  readonly text: string
  readonly number: number
}

/** The newest letter to an address that the sandbox holds. */
export const letterTo = async (
  { demo }: Pick<TestApp, 'demo'>,
  address: string,
  after = 0,
): Promise<Letter> => {
  let found: Letter | undefined
  await until(
    async () => {
      const answer = await fetch(`${demo.sandbox}/_sandbox/mail`)
      const { letters } = (await answer.json()) as { letters: readonly Letter[] }
      found = letters.find(({ to, number }) => to.includes(address) && number > after)
      return found !== undefined
    },
    { what: `a letter to ${address}` },
  )
  return found!
}

/** The path of the link in a letter. */
export const linkIn = ({ text: letter }: { readonly text: string }): string => {
  const url = /http:\/\/localhost:\d+(\/console\/sign-in\/link\?link=[\w-]+)/.exec(letter)?.[1]
  if (url === undefined) throw new Error(`no link in ${letter}`)
  return url
}

/** Opens a sign-in link as a person does: opens the page, then presses the button. */
export const pressLink = async (browser: Browser, path: string): Promise<Page> => {
  const page = await browser.get(path)
  return browser.post('/console/sign-in/link', { link: hiddenField(page, 'link') })
}

/** A browser that is signed in to an account by a link of the command line. */
export const signedIn = async (app: TestApp, accountId: string): Promise<Browser> => {
  const browser = consoleBrowser(app)
  const link = await printedLink(app, accountId)
  const page = await pressLink(browser, link)
  if (page.status !== 303) throw new Error(`signing in was answered ${page.status}: ${page.html}`)
  return browser
}

/** The path of a link that signs in once, as the command line prints it. */
export const printedLink = async ({ core }: Pick<TestApp, 'core'>, subjectId: string): Promise<string> => {
  const { createLinks, printedLinkMs } = await import('../../src/features/sign-in/sign-in-links.ts')
  const link = await createLinks(core).printed(subjectId, core.clock() + printedLinkMs)
  return `/console/sign-in/link?link=${link}`
}

/** A batch of scrapes that an account sends with its own key; its id. */
export const sendBatch = async (
  { issueKey, buyer }: Pick<TestApp, 'issueKey' | 'buyer'>,
  accountId: AccountId,
  inputs: readonly Readonly<Record<string, unknown>>[],
): Promise<string> => {
  const key = await issueKey(accountId, null, ['scrape'])
  const headers = { 'X-Request-Id': newId<string>('req') }
  const batch = { platform: 'reddit', operation: 'subreddit', inputs }
  return (await done(buyer.post('/v1/scrape/batch', batch, { key, headers }))).body.batchId
}

/** Changes the sessions of people as the service does: with the signatures of the changed rows. */
export const changeSessions = async (
  app: Pick<TestApp, 'core'>,
  subjectIds: readonly string[],
  /** SQL, e.g. `confirmed_until = null`. */
  set: string,
): Promise<void> => {
  const { createSessionSigner } = await import('../../src/features/sign-in/sessions.ts')
  const { pool, keys } = app.core
  const { rows } = await pool.query(
    `update vault.console_sessions set ${set} where subject_id = any ($1) returning *`,
    [subjectIds],
  )
  for (const row of rows)
    await pool.query('update vault.console_sessions set signature = $2 where session_id = $1', [
      row.session_id,
      createSessionSigner(keys).sign(row),
    ])
}

/** A browser of a member of the staff with a passkey, whose ceremony the tests of the real browser show. */
export const staffBrowser = async (
  app: Pick<TestApp, 'baseUrl' | 'core'>,
  roles: readonly ('finance' | 'operator')[],
  /** Whether every act counts as confirmed for the next hour. */
  { confirmed = true } = {},
): Promise<Browser & { readonly staffId: string }> => {
  const { createPeople } = await import('../../src/features/sign-in/people.ts')
  const { claimStaff } = await import('../../src/features/sign-in/people.ts')
  const { createSessions, newSessionId } = await import('../../src/features/sign-in/sessions.ts')
  const { core } = app
  const member = await claimStaff(core.pool, `${newId<string>('x')}@staff.example`)
  const { staffId } = member
  for (const role of roles) await createPeople(core).grant(member, role, operator)
  const session = { subjectId: staffId, sessionId: newSessionId(staffId), method: 'passkey' } as const
  await createPeople(core).signIn(session, { ...operator, actor: { kind: 'session', ...session } })
  const opened = await createSessions(core).open(session, { userAgent: 'test', address: '127.0.0.1' })
  if (confirmed) await changeSessions(app, [staffId], `confirmed_until = now() + interval '1 hour'`)
  const browser = consoleBrowser(app)
  browser.cookies.set('__Host-farebox_session', opened.secret)
  return { ...browser, staffId }
}
