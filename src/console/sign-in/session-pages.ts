import { html } from '../../platform/pages/html.ts'
import { tableOf } from '../frame/table.ts'
import { countText, timeText } from '../frame/text.ts'
import { dropCookie, setCookie } from '../pages/cookies.ts'
import { consolePath } from '../pages/origin.ts'
import { type ConsolePage, goTo, openPage, type PersonVisit, personPage, show } from '../pages/page.ts'
import type { Session } from '../session/sessions.ts'
import { endSession, type SignInDeps } from './desk.ts'

const yearS = 365 * 86_400

const methodText: Readonly<Record<Session['method'], string>> = {
  link: 'e-mailed link',
  passkey: 'passkey',
  'cli-link': 'link of the operator',
}

/** What a person needs to tell browsers apart: the first words of what they call themselves. */
const browserText = ({ userAgent }: Session): string => {
  const name = /(Firefox|Edg|OPR|Chrome|Safari|curl)\/[\d.]+/.exec(userAgent)?.[0]
  const system = /\(([^);]+)/.exec(userAgent)?.[1]
  return [name, system].filter((part) => part !== undefined).join(', ') || userAgent.slice(0, 60) || 'unknown'
}

/** Signing out, the sessions of a person, and the colours of the pages. */
export const sessionPages = (deps: SignInDeps): readonly ConsolePage[] => {
  const { sessions } = deps

  const list = async ({ visitor }: PersonVisit) => {
    const { session } = visitor
    const rows = await sessions.list(session.subjectId)
    return show({
      title: 'Sessions',
      body: html`<p>Browsers that are signed in. One that you do not know is to be ended, and your mail looked after.</p>
${tableOf({
  caption: 'Sessions',
  rows,
  empty: html`<p>No session.</p>`,
  columns: [
    {
      title: 'Browser',
      head: true,
      cell: (row) =>
        html`${browserText(row)}${row.sessionId === session.sessionId ? html` <small>(this one)</small>` : null}`,
    },
    { title: 'Address', cell: ({ address }) => address },
    {
      title: 'Signed in',
      cell: ({ createdAt, method }) =>
        html`${timeText(createdAt)}<br><small>by ${methodText[method]}</small>`,
    },
    { title: 'Last seen', cell: ({ seenAt }) => timeText(seenAt) },
    { title: 'Ends', cell: ({ endsAt }) => timeText(endsAt) },
    {
      title: 'End it',
      cell: ({ sessionId }) =>
        html`<form method="post" action="/console/sessions"><button name="end" value="${sessionId}" class="plain">End</button></form>`,
    },
  ],
})}
<form method="post" action="/console/sessions" class="stack"><div class="acts"><button name="end" value="others" class="danger">End all others</button></div></form>`,
    })
  }

  const end = async ({ visitor, cause }: PersonVisit, what: string) => {
    const { session } = visitor
    if (what === 'others') {
      const ended = await sessions.endOthers(session.subjectId, session.sessionId)
      for (const sessionId of ended)
        await deps.people.sessionEnded({ subjectId: session.subjectId, sessionId, reason: 'revoked' }, cause)
      return goTo('/console/sessions', `${countText(ended.length, 'session')} ended.`)
    }
    await endSession(deps, { subjectId: session.subjectId, sessionId: what }, 'revoked', cause)
    return what === session.sessionId
      ? { ...goTo('/console/sign-in'), cookies: [dropCookie('session')] }
      : goTo('/console/sessions', 'The session is over.')
  }

  return [
    personPage({
      path: '/console/sessions',
      name: 'showSessions',
      summary: 'Browsers that are signed in',
      nav: { label: 'Sessions', group: 'You' },
      show: list,
      act: { harmless: true, run: (visit, typed) => end(visit, typed.text('end')) },
    }),
    personPage({
      path: '/console/sign-out',
      name: 'signOut',
      summary: 'Ends the session of this browser',
      act: {
        harmless: true,
        run: async ({ visitor, cause }) => {
          await endSession(deps, visitor.session, 'signed_out', cause)
          return { ...goTo('/console/sign-in', 'You are signed out.'), cookies: [dropCookie('session')] }
        },
      },
    }),
    openPage({
      path: '/console/theme',
      name: 'setTheme',
      summary: 'Sets the colours of the pages in this browser',
      act: {
        harmless: true,
        run: async (_visit, typed) => {
          const theme = typed.text('theme')
          const cookie =
            theme === 'light' || theme === 'dark'
              ? setCookie('theme', theme, 'Lax', yearS)
              : dropCookie('theme')
          return { ...goTo(consolePath(typed.text('to'))), cookies: [cookie] }
        },
      },
    }),
  ]
}
