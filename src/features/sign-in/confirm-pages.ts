import { isStaff } from '../../domain/staff/lifetimes.ts'
import type { Assets } from '../../platform/ui/assets.ts'
import { consolePath } from '../../platform/ui/cookies.ts'
import { emptyFormInput, type FormInput, fieldOf, type Problems, problemsOf } from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { html, nothing } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  goTo,
  type PersonVisit,
  personPage,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import type { Sessions } from '../../platform/ui/session.ts'
import { codeIn } from '../../platform/vault/secrets.ts'
import { passkeyButton } from './passkey-pages.ts'
import type { Passkeys } from './passkeys.ts'
import type { People } from './people.ts'
import { codeDelayS, type MailedCodes, type SignInLimits, sessionCookie, signInDelayS } from './sign-in.ts'

type ConfirmationRequest = { readonly act: string; readonly to: string }

/**
 * The act to confirm, and the page to continue to. Only console paths are accepted. An act is a path with its
 * placeholders.
 */
const parseConfirmationRequest = ({ query }: PersonVisit, typed: FormInput): ConfirmationRequest => {
  const act = typed.text('act') || (query.get('act') ?? '')
  return {
    act: /^\/console(?:\/[a-z{}-]+)*$/.test(act) ? act : '/console',
    to: consolePath(typed.text('to') || query.get('to')),
  }
}

/** Pages where people confirm their identity before a sensitive act. */
export const confirmPages = ({
  passkeys,
  mailedCodes,
  people,
  sessions,
  signInLimits,
  island,
}: {
  readonly passkeys: Pick<Passkeys, 'requestOptions' | 'verify'>
  /** Null: no mail is sent. */
  readonly mailedCodes: MailedCodes | null
  readonly people: Pick<People, 'read' | 'confirmed'>
  readonly sessions: Pick<Sessions, 'renew'>
  /** Null: limits are off. */
  readonly signInLimits: SignInLimits | null
  readonly island: Assets['island']
}): readonly ConsolePage[] => {
  const purposeOf = ({ visitor }: PersonVisit, act: string): string =>
    `confirm ${visitor.session.sessionId} ${act}`

  /** Accounts without e-mail, and staff, get no codes. */
  const codesFor = ({ visitor }: PersonVisit): MailedCodes | null =>
    isStaff(visitor.session.subjectId) || visitor.name === '' ? null : mailedCodes

  const view = async (
    visit: PersonVisit,
    typed: FormInput,
    problems: Problems,
    sent = false,
  ): Promise<View> => {
    const { subjectId } = visit.visitor.session
    const confirmation = parseConfirmationRequest(visit, typed)
    const hidden = html`<input type="hidden" name="act" value="${confirmation.act}"><input type="hidden" name="to" value="${confirmation.to}">`
    const person = await people.read(subjectId, visit.cause)
    const withPasskey = !person.passkeys.isEmpty()
    const options = withPasskey
      ? await passkeys.requestOptions(subjectId, purposeOf(visit, confirmation.act))
      : null
    const hasNoMethod = options === null && codesFor(visit) === null
    return {
      title: 'Show that it is you',
      scripts: options === null ? [] : [island('passkey')],
      body: html`${problemsOf(problems)}
<p>What comes next matters, so show once more who you are. It holds for five minutes, for this page alone.</p>
${options === null ? nothing : html`<h2>With a passkey</h2><form method="post" action="/console/confirm" class="stack">${hidden}${passkeyButton(options, 'Use a passkey')}</form>`}
${
  codesFor(visit) === null
    ? nothing
    : html`<h2>With a code by mail</h2>
${sent ? html`<p class="said" role="status">A code is on its way to ${visit.visitor.name}.</p>` : nothing}
<form method="post" action="/console/confirm" class="stack" novalidate>${hidden}
${sent || problems.code !== undefined ? fieldOf({ name: 'code', label: 'Code', inputmode: 'numeric', autocomplete: 'one-time-code', maxlength: 20 }, typed, problems) : nothing}
<div class="acts">${sent || problems.code !== undefined ? html`<button class="first" name="do" value="code">Confirm</button> ` : nothing}<button name="do" value="mail">${sent ? 'Send another code' : 'Send me a code'}</button></div></form>`
}
${hasNoMethod ? html`<p class="said warn">You have no passkey, and no mail can be sent to you. Sign out and sign in again: a fresh sign-in does as well.</p>` : nothing}`,
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
    const asksForCode = typed.text('do') === 'mail' && codes !== null
    const waitS =
      signInDelayS(signInLimits, visit.browser.address) ||
      (asksForCode ? codeDelayS(signInLimits, sessionId) : 0)
    if (waitS > 0)
      return refusedView(
        await view(visit, typed, { form: `That was tried too often. Wait ${Math.ceil(waitS)} seconds.` }),
        429,
      )
    if (asksForCode) {
      await codes.send(visit.visitor.name, sessionId, confirmation.act)
      return show(await view(visit, typed, {}, true))
    }
    if (typed.text('do') === 'code' && codes !== null) {
      const code = codeIn(typed.text('code'))
      if (code !== null && (await codes.redeem(sessionId, confirmation.act, code)))
        return confirmed(visit, confirmation, 'code')
      return refusedView(
        await view(visit, typed, {
          code: 'This code does not fit. It is good for ten minutes and five tries.',
        }),
      )
    }
    const verifiedPasskey = await passkeys.verify(
      typed.text('answer'),
      purposeOf(visit, confirmation.act),
      visit.cause,
    )
    if (verifiedPasskey?.subjectId === subjectId) return confirmed(visit, confirmation, 'passkey')
    return refusedView(
      await view(visit, typed, {
        form: 'The browser gave none of your passkeys, or the page was open for too long.',
      }),
    )
  }

  return [
    personPage({
      path: '/console/confirm',
      name: 'confirmPerson',
      summary: 'Shows again who is there, for one act',
      show: async (visit) => show(await view(visit, emptyFormInput, {})),
      act: { harmless: true, run: confirm },
    }),
  ]
}
