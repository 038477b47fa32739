import { isoTime } from '../../kernel/clock.ts'
import { consolePath, dropCookie, setCookie } from '../../platform/ui/cookies.ts'
import { html } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  goTo,
  openPage,
  type PersonVisit,
  personPage,
  show,
  type Visit,
} from '../../platform/ui/page.ts'
import type { Session, Sessions } from '../../platform/ui/session.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { countText, textInZone, timeText, zoneOf, zones } from '../../platform/ui/text.ts'
import type { People } from './people.ts'
import { endSession } from './sign-in.ts'

const yearS = 365 * 86_400

const methodText: Readonly<Record<Session['method'], string>> = {
  link: 'e-mailed link',
  passkey: 'passkey',
  'cli-link': 'link of the operator',
}

/** Identifies a browser for people: the first words of its user agent. */
const browserText = ({ userAgent }: Session): string => {
  const name = /(Firefox|Edg|OPR|Chrome|Safari|curl)\/[\d.]+/.exec(userAgent)?.[0]
  const system = /\(([^);]+)/.exec(userAgent)?.[1]
  return [name, system].filter((part) => part !== undefined).join(', ') || userAgent.slice(0, 60) || 'unknown'
}

/** Sign-out, the sessions of a person, and the colour scheme of the pages. */
export const sessionPages = ({
  people,
  sessions,
}: {
  readonly people: Pick<People, 'sessionEnded'>
  readonly sessions: Pick<Sessions, 'list' | 'end' | 'endOthers'>
}): readonly ConsolePage[] => {
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

  const end = async ({ visitor, cause }: PersonVisit, sessionChoice: string) => {
    const { session } = visitor
    if (sessionChoice === 'others') {
      const endedIds = await sessions.endOthers(session.subjectId, session.sessionId)
      for (const sessionId of endedIds)
        await people.sessionEnded({ subjectId: session.subjectId, sessionId, reason: 'revoked' }, cause)
      return goTo('/console/sessions', `${countText(endedIds.length, 'session')} ended.`)
    }
    await endSession(
      { people, sessions },
      { subjectId: session.subjectId, sessionId: sessionChoice },
      'revoked',
      cause,
    )
    return sessionChoice === session.sessionId
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
          await endSession({ people, sessions }, visitor.session, 'signed_out', cause)
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

const path = '/console/times'

const form = ({ zone, query, nowMs }: Visit) =>
  show({
    title: 'Times',
    body: html`<p>It is ${timeText(isoTime(nowMs))}. Pages say times in UTC, as files and the API do, or in a time zone of yours. Days and months, by which money and traffic are added up, stay those of UTC.</p>
<form method="post" action="${path}" class="stack">
<input type="hidden" name="to" value="${consolePath(query.get('back') ?? '/console')}">
<div class="field"><label for="zone">Time zone</label><select id="zone" name="zone"><option value="UTC">UTC</option>${zones.map(
      (each) =>
        html`<option value="${each}"${each === zone ? { html: ' selected' } : null}>${each.replaceAll('_', ' ')}</option>`,
    )}</select></div>
<div class="acts"><button class="first">Show times so</button></div>
</form>`,
  })

/** The time zone of times on pages in this browser. */
export const timePages: readonly ConsolePage[] = [
  openPage({
    path,
    name: 'setZone',
    summary: 'The time zone of times on pages, in this browser',
    show: async (visit) => form(visit),
    act: {
      harmless: true,
      run: async ({ nowMs }, typed) => {
        const zone = zoneOf(typed.text('zone'))
        const confirmationText =
          zone === null
            ? 'Times are in UTC.'
            : `Times are those of ${zone}: ${textInZone(isoTime(nowMs), zone)}.`
        return {
          ...goTo(consolePath(typed.text('to')), confirmationText),
          cookies: [zone === null ? dropCookie('zone') : setCookie('zone', zone, 'Lax', yearS)],
        }
      },
    },
  }),
]
