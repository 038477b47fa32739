import { isStaff } from '../../domain/staff/lifetimes.ts'
import { consolePath, dropCookie } from '../../platform/ui/cookies.ts'
import { type FormInput, fieldOf, formOf, hiddenOf } from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  goTo,
  type PersonVisit,
  personPage,
  refused,
  type Sessions,
} from '../../platform/ui/page.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { timeText } from '../../platform/ui/text.ts'
import { codeIn } from '../../platform/vault/secrets.ts'
import type { Passkeys } from './passkeys.ts'
import type { People } from './people.ts'
import {
  codeDelayS,
  type MailedCodes,
  type SignInLimits,
  sessionCookie,
  signInDelayS,
  waitText,
} from './sign-in.ts'

/** A button that requests a passkey. The answer is submitted as the field `answer` of the form. */
export const passkeyButton = (
  options: unknown,
  label: string,
  buttonClass: 'first' | 'second' = 'first',
): Html =>
  html`<fbx-passkey data-options="${JSON.stringify(options)}"><input type="hidden" name="answer" value="">
<button type="button" class="${buttonClass}" hidden>${label}</button>
<noscript><p class="hint">Passkeys need JavaScript in this browser.</p></noscript>
<p class="hint" role="status"></p></fbx-passkey>`

const passkeysPath = '/console/passkeys'
const maxName = 60

const isName = (text: string): boolean => text.length <= maxName && !/\p{C}/u.test(text)

/** Lists, adds and removes the passkeys of a person. */
export const passkeyPages = ({
  passkeys,
  people,
  sessions,
}: {
  readonly passkeys: Pick<Passkeys, 'list' | 'creationOptions' | 'create' | 'remove'>
  readonly people: Pick<People, 'read' | 'passkeyAdded' | 'passkeyRemoved'>
  readonly sessions: Pick<Sessions, 'renew'>
}): readonly ConsolePage[] => {
  const purposeOf = ({ visitor }: PersonVisit): string => `add ${visitor.session.sessionId}`

  const add = async (visit: PersonVisit, typed: FormInput) => {
    const { subjectId, sessionId, method } = visit.visitor.session
    const name = typed.text('name') || 'passkey'
    if (!isName(name)) return refused({ name: `A name has at most ${maxName} characters.` })
    // A person with a passkey adds another one with it. The first one can be added right after sign-in.
    const newPasskey = await passkeys.create({ subjectId }, name, typed.text('answer'), purposeOf(visit))
    if (newPasskey === null)
      return refused({ form: 'The browser returned no passkey, or the page was open for too long.' })
    const added = await people.passkeyAdded({ subjectId, ...newPasskey }, visit.cause)
    if (added.outcome === 'refused') {
      await passkeys.remove(subjectId, newPasskey.passkeyId)
      return refused({ form: 'You already have ten passkeys, the maximum.' }, 409)
    }
    const message = 'The passkey is added.'
    if (!isStaff(subjectId) || method === 'passkey') return goTo(passkeysPath, message)
    // The passkey was just used, so the session becomes a passkey session, and the next page needs no second
    // confirmation.
    const renewed = await sessions.renew(sessionId, { method: 'passkey', act: null })
    return {
      ...goTo(visit.wanted === '/console' ? passkeysPath : visit.wanted, message),
      cookies: [sessionCookie(renewed, visit.nowMs), dropCookie('wanted')],
    }
  }

  return [
    personPage({
      path: '/console/passkeys',
      name: 'showPasskeys',
      summary: 'The passkeys of the person',
      confirmed: true,
      show: async (visit) => {
        const { subjectId, method } = visit.visitor.session
        const [all, person] = await Promise.all([
          passkeys.list(subjectId),
          people.read(subjectId, visit.cause),
        ])
        const options = await passkeys.creationOptions(
          { subjectId, name: visit.visitor.name || subjectId },
          purposeOf(visit),
        )
        const nameField = {
          name: 'name',
          label: 'Name',
          hint: 'Such as the name of the device.',
          maxlength: maxName,
        }
        return {
          title: 'Passkeys',
          islands: ['passkey'],
          body: html`${isStaff(subjectId) && method !== 'passkey' ? html`<p class="message warn">Staff can sign in only with a passkey, and your link is used. Add a passkey now, and a second one on another device.</p>` : html`<p>With a passkey you sign in with your device, without e-mail. Add two of them on two devices to be safe.</p>`}
${tableOf({
  caption: 'Passkeys',
  rows: all.filter(({ passkeyId }) => person.passkeys.has(passkeyId)),
  empty: 'You have no passkey yet.',
  columns: [
    { title: 'Name', head: true, cell: ({ name }) => name },
    { title: 'Added', cell: ({ createdAt }) => timeText(createdAt) },
    { title: 'Last used', cell: ({ usedAt }) => timeText(usedAt) },
    {
      title: 'Action',
      cell: ({ passkeyId, name }) =>
        html`<a href="${passkeysPath}/${passkeyId}/remove">Remove <span class="skip">${name}</span></a>`,
    },
  ],
})}
<h2>Add a passkey</h2>
<form method="post" action="${passkeysPath}" class="stack">
${fieldOf(nameField, visit.form)}
${passkeyButton(options, 'Add passkey')}
</form>`,
        }
      },
      act: { run: add },
    }),
    personPage({
      path: '/console/passkeys/{id}/remove',
      name: 'removePasskey',
      summary: 'Removes a passkey',
      confirmed: true,
      show: async ({ form }) => ({
        title: 'Remove a passkey',
        body: html`<p>The passkey can no longer sign in. Remove it from your device as well.</p>
${formOf(form, { submit: 'Remove passkey', danger: true, back: passkeysPath, backLabel: 'Keep it' })}`,
      }),
      act: {
        run: async ({ params, visitor, cause }) => {
          const { subjectId } = visitor.session
          const passkeyId = params.id ?? ''
          const done = await people.passkeyRemoved(subjectId, passkeyId, cause)
          if (done.outcome === 'refused')
            return goTo(
              passkeysPath,
              'This is your last passkey, and staff needs one. Add another one first.',
            )
          await passkeys.remove(subjectId, passkeyId)
          return goTo(passkeysPath, 'The passkey is removed.')
        },
      },
    }),
  ]
}

type ConfirmationRequest = { readonly act: string; readonly to: string }

/**
 * The action to confirm, and the page to continue to. Only console paths are accepted. An action is a path with its
 * placeholders.
 */
const parseConfirmationRequest = ({ query }: PersonVisit, typed: FormInput): ConfirmationRequest => {
  const act = typed.text('act') || (query.get('act') ?? '')
  return {
    act: /^\/console(?:\/[a-z{}-]+)*$/.test(act) ? act : '/console',
    to: consolePath(typed.text('to') || query.get('to')),
  }
}

/** Pages where people confirm their identity before a sensitive action. */
export const confirmPages = ({
  passkeys,
  mailedCodes,
  people,
  sessions,
  signInLimits,
}: {
  readonly passkeys: Pick<Passkeys, 'requestOptions' | 'verify'>
  /** Null: no mail is sent. */
  readonly mailedCodes: MailedCodes | null
  readonly people: Pick<People, 'read' | 'confirmed'>
  readonly sessions: Pick<Sessions, 'renew'>
  /** Null: limits are off. */
  readonly signInLimits: SignInLimits | null
}): readonly ConsolePage[] => {
  const purposeOf = ({ visitor }: PersonVisit, act: string): string =>
    `confirm ${visitor.session.sessionId} ${act}`

  /** Accounts without e-mail, and staff, get no codes. */
  const codesFor = ({ visitor }: PersonVisit): MailedCodes | null =>
    isStaff(visitor.session.subjectId) || visitor.name === '' ? null : mailedCodes

  const view = async (visit: PersonVisit, sent: boolean): Promise<View> => {
    const { form, visitor } = visit
    const { subjectId } = visitor.session
    const { act, to } = parseConfirmationRequest(visit, form.typed)
    const hidden = html`${hiddenOf('act', act)}${hiddenOf('to', to)}`
    const person = await people.read(subjectId, visit.cause)
    const options = person.passkeys.isEmpty()
      ? null
      : await passkeys.requestOptions(subjectId, purposeOf(visit, act))
    const codes = codesFor(visit)
    const expectsCode = sent || form.problems.code !== undefined
    const codeField = {
      name: 'code',
      label: 'Code',
      inputmode: 'numeric',
      autocomplete: 'one-time-code',
      maxlength: 20,
    } as const
    return {
      title: 'Confirm it’s you',
      islands: options === null ? [] : ['passkey'],
      body: html`<p>Valid for five minutes, for this page only.</p>
${options === null ? nothing : html`<h2>With a passkey</h2><form method="post" action="/console/confirm" class="stack">${hidden}${passkeyButton(options, 'Use a passkey')}</form>`}
${
  codes === null
    ? nothing
    : html`<h2>With a code by e-mail</h2>
${sent ? html`<p class="message" role="status">A code was sent to ${visitor.name}.</p>` : nothing}
<form method="post" action="/console/confirm" class="stack" novalidate>${hidden}
${expectsCode ? fieldOf(codeField, form) : nothing}
<div class="actions">${expectsCode ? html`<button class="first" name="do" value="code">Confirm</button> ` : nothing}<button name="do" value="mail">${sent ? 'Send another code' : 'Send me a code'}</button></div></form>`
}
${options === null && codes === null ? html`<p class="message warn">You have no passkey and no e-mail address. Sign out and sign in again instead.</p>` : nothing}`,
    }
  }

  const confirmed = async (
    visit: PersonVisit,
    { act, to }: ConfirmationRequest,
    method: 'passkey' | 'code',
  ) => {
    const { subjectId, sessionId } = visit.visitor.session
    await people.confirmed({ subjectId, sessionId, act, method }, visit.cause)
    const renewed = await sessions.renew(sessionId, { act })
    return { ...goTo(to), cookies: [sessionCookie(renewed, visit.nowMs)] }
  }

  const confirm = async (visit: PersonVisit, typed: FormInput) => {
    const { subjectId, sessionId } = visit.visitor.session
    const confirmation = parseConfirmationRequest(visit, typed)
    const codes = codesFor(visit)
    const requestsCode = typed.text('do') === 'mail' && codes !== null
    const waitS =
      signInDelayS(signInLimits, visit.browser.address) ||
      (requestsCode ? codeDelayS(signInLimits, sessionId) : 0)
    if (waitS > 0) return refused({ form: waitText(waitS) }, 429)
    if (requestsCode) {
      await codes.send(visit.visitor.name, sessionId, confirmation.act)
      return view({ ...visit, form: { ...visit.form, typed } }, true)
    }
    if (typed.text('do') === 'code' && codes !== null) {
      const code = codeIn(typed.text('code'))
      return code !== null && (await codes.redeem(sessionId, confirmation.act, code))
        ? confirmed(visit, confirmation, 'code')
        : refused({ code: 'This code is not valid. A code is valid for ten minutes and five attempts.' })
    }
    const purpose = purposeOf(visit, confirmation.act)
    const verified = await passkeys.verify(typed.text('answer'), purpose, visit.cause)
    return verified?.subjectId === subjectId
      ? confirmed(visit, confirmation, 'passkey')
      : refused({ form: 'The browser returned none of your passkeys, or the page was open for too long.' })
  }

  return [
    personPage({
      path: '/console/confirm',
      name: 'confirmPerson',
      summary: 'Confirms the identity of the person for one action',
      show: (visit) => view(visit, false),
      act: { harmless: true, run: confirm },
    }),
  ]
}
