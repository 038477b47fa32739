import { isoTime } from '../../kernel/clock.ts'
import { consolePath, dropCookie, setCookie } from '../../platform/ui/cookies.ts'
import { choicesFrom, formOf, hiddenOf, postButton, selectOf } from '../../platform/ui/form.ts'
import { formPage, pageForm, textField } from '../../platform/ui/form-page.ts'
import { html } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  goTo,
  openPage,
  operatorPage,
  personPage,
  refused,
  type Session,
  type Sessions,
} from '../../platform/ui/page.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { countText, oneOf, textInZone, timeText, zoneOf, zones } from '../../platform/ui/text.ts'
import type { FindAccount } from '../accounts/index.ts'
import type { People } from './people.ts'
import { endSession } from './sign-in.ts'

const yearS = 365 * 86_400

const methodText: Readonly<Record<Session['method'], string>> = {
  link: 'e-mailed link',
  passkey: 'passkey',
  'cli-link': 'link from the operator',
}

/** Identifies a browser for people: the first words of its user agent. */
const browserText = ({ userAgent }: Session): string => {
  const name = /(Firefox|Edg|OPR|Chrome|Safari|curl)\/[\d.]+/.exec(userAgent)?.[0]
  const system = /\(([^);]+)/.exec(userAgent)?.[1]
  return [name, system].filter((part) => part !== undefined).join(', ') || userAgent.slice(0, 60) || 'unknown'
}

const sessionsPath = '/console/sessions'

/** Sign-out, the sessions of a person, and the colour scheme of the pages. */
export const sessionPages = ({
  people,
  sessions,
}: {
  readonly people: Pick<People, 'sessionEnded'>
  readonly sessions: Pick<Sessions, 'list' | 'end' | 'endOthers'>
}): readonly ConsolePage[] => [
  personPage({
    path: '/console/sessions',
    name: 'showSessions',
    summary: 'Signed-in browsers',
    show: async ({ visitor: { session }, form }) => ({
      title: 'Sessions',
      body: html`<p>Signed-in browsers. If you don't recognise one, end its session and check that your e-mail account is safe.</p>
${tableOf({
  caption: 'Sessions',
  rows: await sessions.list(session.subjectId),
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
      title: 'Action',
      cell: (row) =>
        postButton(form, { name: 'end', value: row.sessionId, label: 'End', of: browserText(row) }),
    },
  ],
})}
<form method="post" class="stack"><div class="actions"><button name="end" value="others" class="danger">End all others</button></div></form>`,
    }),
    act: {
      harmless: true,
      run: async ({ visitor: { session }, cause }, typed) => {
        const { subjectId } = session
        const choice = typed.text('end')
        if (choice === 'others') {
          const endedIds = await sessions.endOthers(subjectId, session.sessionId)
          for (const sessionId of endedIds)
            await people.sessionEnded({ subjectId, sessionId, reason: 'revoked' }, cause)
          return goTo(sessionsPath, `${countText(endedIds.length, 'session')} ended.`)
        }
        await endSession({ people, sessions }, { subjectId, sessionId: choice }, 'revoked', cause)
        return choice === session.sessionId
          ? { ...goTo('/console/sign-in'), cookies: [dropCookie('session')] }
          : goTo(sessionsPath, 'The session is ended.')
      },
    },
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
        const theme = oneOf(['light', 'dark'], typed.text('theme'))
        const cookie = theme ? setCookie('theme', theme, 'Lax', yearS) : dropCookie('theme')
        return { ...goTo(consolePath(typed.text('to'))), cookies: [cookie] }
      },
    },
  }),
]

/** The time zone of times on pages in this browser. */
export const timePages: readonly ConsolePage[] = [
  openPage({
    path: '/console/times',
    name: 'setZone',
    summary: 'Sets the time zone of times on pages in this browser',
    show: async ({ zone, query, nowMs, form }) => ({
      title: 'Times',
      body: html`<p>It is ${timeText(isoTime(nowMs))}. Pages show times in UTC, like files and the API, or in your time zone. Daily and monthly totals always use UTC.</p>
${formOf(form, {
  fields: [
    hiddenOf('to', consolePath(query.get('back') ?? '/console')),
    selectOf(
      {
        name: 'zone',
        label: 'Time zone',
        choices: choicesFrom(['UTC', ...zones]),
        value: zone ?? 'UTC',
      },
      form,
    ),
  ],
  submit: 'Set time zone',
  action: '/console/times',
})}`,
    }),
    act: {
      harmless: true,
      run: async ({ nowMs }, typed) => {
        const zone = zoneOf(typed.text('zone'))
        const message =
          zone === null ? 'Times are in UTC.' : `Times are in ${zone}: ${textInZone(isoTime(nowMs), zone)}.`
        return {
          ...goTo(consolePath(typed.text('to')), message),
          cookies: [zone === null ? dropCookie('zone') : setCookie('zone', zone, 'Lax', yearS)],
        }
      },
    },
  }),
]

const maxReason = 200
const onlyOperators = 'Only operators can view the pages of an account.'

/** Read access of operators to the pages of an account. */
export const viewPages = ({
  people,
  sessions,
  findAccount,
}: {
  readonly people: Pick<People, 'viewed'>
  readonly sessions: Pick<Sessions, 'view'>
  readonly findAccount: FindAccount
}): readonly ConsolePage[] => [
  formPage(operatorPage, {
    path: '/console/view',
    name: 'viewAccount',
    summary: 'Shows an operator the pages of an account',
    form: ({ query, visitor, cause }) =>
      pageForm({
        title: 'View an account',
        intro: html`<p>You see the pages of the account, but cannot change anything. The log records the view and its reason.</p>`,
        fields: {
          account: textField({
            label: 'Account',
            hint: 'Its id or e-mail address.',
            required: true,
            maxlength: 254,
            value: (query.get('account') ?? '').slice(0, 254),
            parse: async (text) =>
              (await findAccount(text)) ?? { problem: 'No account has this id or e-mail address.' },
          }),
          reason: textField({
            label: 'Reason',
            hint: 'It stays in the log: do not include personal data.',
            required: true,
            maxlength: maxReason,
            parse: (text) =>
              text === '' || text.length > maxReason || /\p{C}/u.test(text)
                ? { problem: `Give a reason of at most ${maxReason} characters.` }
                : text,
          }),
        },
        submit: 'View account',
        cliEquivalents: ['bin/farebox accounts show ACCOUNT'],
        run: async ({ account: accountId, reason }) => {
          const { subjectId: staffId, sessionId } = visitor.session
          const result = await people.viewed({ staffId, sessionId, accountId, reason }, cause)
          if (result.outcome === 'refused') return refused({ form: onlyOperators }, 409)
          await sessions.view(sessionId, accountId)
          return goTo('/console')
        },
      }),
  }),
  operatorPage({
    path: '/console/view/stop',
    name: 'stopViewing',
    summary: 'Ends the view of an account',
    act: {
      harmless: true,
      run: async ({ visitor }) => {
        await sessions.view(visitor.session.sessionId, null)
        return goTo('/console/staff', 'You no longer view an account.')
      },
    },
  }),
]
