import { isStaff } from '../../domain/staff/lifetimes.ts'
import type { Assets } from '../../platform/ui/assets.ts'
import { dropCookie } from '../../platform/ui/cookies.ts'
import { emptyFormInput, type FormInput, fieldOf, type Problems, problemsOf } from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  goTo,
  type PersonVisit,
  personPage,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import type { Sessions } from '../../platform/ui/session.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { timeText } from '../../platform/ui/text.ts'
import { shownCode } from '../../platform/vault/secrets.ts'
import type { Passkeys } from './passkeys.ts'
import type { People } from './people.ts'
import { sessionCookie } from './sign-in.ts'

/** A button that requests a passkey. The answer is submitted as the field `answer` of the form. */
export const passkeyButton = (
  options: unknown,
  label: string,
  buttonClass: 'first' | 'second' = 'first',
): Html =>
  html`<fbx-passkey data-options="${JSON.stringify(options)}"><input type="hidden" name="answer" value="">
<button type="button" class="${buttonClass}" hidden>${label}</button>
<noscript><p class="hint">Passkeys need script in this browser.</p></noscript>
<p class="hint" role="status"></p></fbx-passkey>`

/** A code in large digits. */
export const codeText = (code: string): Html => html`<p class="figure"><code>${shownCode(code)}</code></p>`

const maxName = 60

const isName = (text: string): boolean => text.length <= maxName && !/\p{C}/u.test(text)

/** Lists, adds and removes the passkeys of a person. */
export const passkeyPages = ({
  passkeys,
  people,
  sessions,
  island,
}: {
  readonly passkeys: Pick<Passkeys, 'list' | 'creationOptions' | 'create' | 'remove'>
  readonly people: Pick<People, 'read' | 'passkeyAdded' | 'passkeyRemoved'>
  readonly sessions: Pick<Sessions, 'renew'>
  readonly island: Assets['island']
}): readonly ConsolePage[] => {
  const purposeOf = ({ visitor }: PersonVisit): string => `add ${visitor.session.sessionId}`

  const view = async (visit: PersonVisit, typed: FormInput, problems: Problems): Promise<View> => {
    const { subjectId, method } = visit.visitor.session
    const [rows, person] = await Promise.all([passkeys.list(subjectId), people.read(subjectId, visit.cause)])
    const working = rows.filter(({ passkeyId }) => person.passkeys.has(passkeyId))
    const options = await passkeys.creationOptions(
      { subjectId, name: visit.visitor.name || subjectId },
      purposeOf(visit),
    )
    const first = isStaff(subjectId) && method !== 'passkey'
    return {
      title: 'Passkeys',
      scripts: [island('passkey')],
      body: html`${problemsOf(problems)}
${first ? html`<p class="said warn">Staff signs in by passkeys alone. Add one now, and a second one on another device: this link is used up.</p>` : html`<p>A passkey signs you in with your device, without mail. Two of them, on two devices, are safer than one.</p>`}
${tableOf({
  caption: 'Passkeys',
  rows: working,
  empty: html`<p>You have no passkey yet.</p>`,
  columns: [
    { title: 'Name', head: true, cell: ({ name }) => name },
    { title: 'Added', cell: ({ createdAt }) => timeText(createdAt) },
    { title: 'Last used', cell: ({ usedAt }) => timeText(usedAt) },
    {
      title: 'Remove',
      cell: ({ passkeyId, name }) =>
        html`<a href="/console/passkeys/${passkeyId}/remove">Remove <span class="skip">${name}</span></a>`,
    },
  ],
})}
<h2>Add one</h2>
<form method="post" action="/console/passkeys" class="stack">
${fieldOf({ name: 'name', label: 'What you call it', hint: 'Such as the device that holds it.', maxlength: maxName }, typed, problems)}
${passkeyButton(options, 'Add a passkey')}
</form>`,
    }
  }

  const add = async (visit: PersonVisit, typed: FormInput) => {
    const { subjectId, sessionId, method } = visit.visitor.session
    const name = typed.text('name') || 'passkey'
    if (!isName(name))
      return refusedView(await view(visit, typed, { name: `A name has at most ${maxName} characters.` }))
    // A person with a passkey adds another one with it. The first one can be added right after sign-in.
    const newPasskey = await passkeys.create({ subjectId }, name, typed.text('answer'), purposeOf(visit))
    if (newPasskey === null)
      return refusedView(
        await view(visit, typed, { form: 'The browser gave no passkey, or the page was open for too long.' }),
      )
    const added = await people.passkeyAdded({ subjectId, ...newPasskey }, visit.cause)
    if (added.outcome === 'refused') {
      await passkeys.remove(subjectId, newPasskey.passkeyId)
      return refusedView(
        await view(visit, typed, { form: 'There are ten passkeys, as many as there may be.' }),
        409,
      )
    }
    const done = goTo('/console/passkeys', 'The passkey is added.')
    if (!isStaff(subjectId) || method === 'passkey') return done
    // The passkey was just used, so the session becomes a passkey session, and the next page needs no second
    // confirmation.
    const renewed = await sessions.renew(sessionId, { method: 'passkey', act: null })
    const to = visit.wanted === '/console' ? '/console/passkeys' : visit.wanted
    return {
      ...goTo(to, 'The passkey is added.'),
      cookies: [sessionCookie(renewed, visit.nowMs), dropCookie('wanted')],
    }
  }

  return [
    personPage({
      path: '/console/passkeys',
      name: 'showPasskeys',
      summary: 'Passkeys that sign in',
      nav: { label: 'Passkeys', group: 'You' },
      confirmed: true,
      show: async (visit) => show(await view(visit, emptyFormInput, {})),
      act: { run: add },
    }),
    personPage({
      path: '/console/passkeys/{id}/remove',
      name: 'removePasskey',
      summary: 'Removes a passkey',
      confirmed: true,
      show: async ({ params }) =>
        show({
          title: 'Remove a passkey',
          body: html`<p>The passkey signs nobody in any more. Remove it from your device as well.</p>
<form method="post" action="/console/passkeys/${params.id ?? ''}/remove"><div class="acts"><button class="danger">Remove the passkey</button> <a href="/console/passkeys">Keep it</a></div></form>`,
        }),
      act: {
        run: async ({ params, visitor, cause }) => {
          const { subjectId } = visitor.session
          const passkeyId = params.id ?? ''
          const done = await people.passkeyRemoved(subjectId, passkeyId, cause)
          if (done.outcome === 'refused')
            return goTo(
              '/console/passkeys',
              'It is your last one, and staff needs one: add another one first.',
            )
          await passkeys.remove(subjectId, passkeyId)
          return goTo('/console/passkeys', 'The passkey is removed.')
        },
      },
    }),
  ]
}
