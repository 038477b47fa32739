import { emptyFormInput, type FormInput, fieldOf, type Problems, problemsOf } from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { html } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  goTo,
  type PersonVisit,
  personPage,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import type { Sessions } from '../../platform/ui/session.ts'
import type { FindAccount } from '../accounts/index.ts'
import type { People } from './people.ts'

const maxReason = 200

/** The start page of staff, and read access to an account's pages. */
export const staffPages = ({
  people,
  sessions,
  findAccount,
}: {
  readonly people: Pick<People, 'viewed'>
  readonly sessions: Pick<Sessions, 'view'>
  readonly findAccount: FindAccount
}): readonly ConsolePage[] => {
  const view = (visit: PersonVisit, typed: FormInput, problems: Problems): View => ({
    title: 'Staff',
    body: html`${problemsOf(problems)}
<p>You are signed in with: ${[...visit.visitor.roles].join(', ')}.</p>
${
  !visit.visitor.roles.has('operator')
    ? html`<p class="soft">Looking at the pages of an account is for operators.</p>`
    : html`<h2>Look at an account</h2>
<p>You see its pages as it sees them, and can change nothing. The log keeps that you looked, and why.</p>
<form method="post" action="/console/staff" class="stack" novalidate>
${fieldOf({ name: 'account', label: 'Account', hint: 'Its id or its e-mail.', required: true, maxlength: 254, value: (visit.query.get('account') ?? '').slice(0, 254) }, typed, problems)}
${fieldOf({ name: 'reason', label: 'Why', hint: 'It stays in the log for good: name no person.', required: true, maxlength: maxReason }, typed, problems)}
<div class="acts"><button class="first">Look at the account</button></div>
</form>`
}`,
    same: ['npx farebox accounts show ACCOUNT', 'npx farebox staff list'],
  })

  const startViewing = async (visit: PersonVisit, typed: FormInput) => {
    const reason = typed.text('reason')
    const accountId = await findAccount(typed.text('account'))
    const problems: Problems = {
      ...(accountId === null && { account: 'No account has this id or e-mail.' }),
      ...((reason === '' || reason.length > maxReason || /\p{C}/u.test(reason)) && {
        reason: `Say why, in at most ${maxReason} characters.`,
      }),
    }
    if (accountId === null || Object.keys(problems).length > 0)
      return refusedView(view(visit, typed, problems))
    const { subjectId: staffId, sessionId } = visit.visitor.session
    const result = await people.viewed({ staffId, sessionId, accountId, reason }, visit.cause)
    if (result.outcome === 'refused')
      return refusedView(
        view(visit, typed, { form: 'Looking at the pages of an account is for operators.' }),
        409,
      )
    await sessions.view(sessionId, accountId)
    return goTo('/console')
  }

  return [
    personPage({
      path: '/console/staff',
      name: 'showStaff',
      summary: 'The first page of staff, from where operators look at accounts',
      for: ['finance', 'operator'],
      nav: { label: 'Staff', group: 'Staff' },
      show: async (visit) => show(view(visit, emptyFormInput, {})),
      act: { run: startViewing },
    }),
    personPage({
      path: '/console/view/stop',
      name: 'stopViewing',
      summary: 'Ends looking at an account',
      for: ['operator'],
      act: {
        harmless: true,
        run: async ({ visitor }) => {
          await sessions.view(visitor.session.sessionId, null)
          return goTo('/console/staff', 'You look at no account any more.')
        },
      },
    }),
  ]
}
