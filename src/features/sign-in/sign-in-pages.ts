import { isEmail } from '../../kernel/formats.ts'
import { consolePath, dropCookie, setCookie, wantedCookie } from '../../platform/ui/cookies.ts'
import { type FormInput, fieldOf, formOf, hiddenOf, problemsOf } from '../../platform/ui/form.ts'
import { formPage, hiddenField, pageForm, textField } from '../../platform/ui/form-page.ts'
import type { View } from '../../platform/ui/frame.ts'
import { html } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  goTo,
  openPage,
  refused,
  type Visit,
  viewWithStatus,
} from '../../platform/ui/page.ts'
import { codeIn, hashOfSecret, newSecret, shownCode } from '../../platform/vault/secrets.ts'
import { passkeyButton } from './passkey-pages.ts'
import type { Passkeys } from './passkeys.ts'
import {
  type SendLink,
  type SignIn,
  type SignInByPasskey,
  type SignInLimits,
  signInDelayS,
  signInPurpose,
  waitText,
} from './sign-in.ts'
import { type Links, linkMs } from './sign-in-links.ts'

const homeOf = (visit: Visit, typed: FormInput): string =>
  consolePath(typed.text('to') || visit.query.get('to'))

/** Sign-in by e-mail or passkey. The answer is the same for known and unknown addresses. */
export const signInPages = ({
  name,
  sendLink,
  passkeys,
  signInByPasskey,
  signInLimits,
}: {
  /** The name of the service. */
  readonly name: string
  /** Null: no mail is sent. */
  readonly sendLink: SendLink | null
  readonly passkeys: Pick<Passkeys, 'requestOptions'>
  readonly signInByPasskey: SignInByPasskey
  /** Null: limits are off. */
  readonly signInLimits: SignInLimits | null
}): readonly ConsolePage[] => {
  const signInView = async (visit: Visit): Promise<View> => {
    const { form } = visit
    const to = hiddenOf('to', homeOf(visit, form.typed))
    const options = await passkeys.requestOptions(null, signInPurpose)
    const emailField = {
      name: 'email',
      label: 'E-mail',
      type: 'email',
      autocomplete: 'email',
      required: true,
      maxlength: 254,
    } as const
    return {
      standalone: true,
      title: `Sign in to ${name}`,
      islands: ['passkey'],
      body: html`${visit.query.get('ended') === 'yes' ? html`<p class="message warn" role="status">Your session has ended, and nothing was changed. Sign in with a passkey in this tab to continue with what you typed.</p>` : null}${
        sendLink === null
          ? html`<p class="message warn">This service sends no mail. Ask its operator for a sign-in link, or use a passkey.</p>`
          : formOf(form, {
              fields: [to, fieldOf(emailField, form)],
              submit: 'Send me a link',
              action: '/console/sign-in',
            })
      }
<h2>With a passkey</h2>
<form method="post" action="/console/sign-in/passkey" class="stack">
${to}
${passkeyButton(options, 'Sign in with a passkey', sendLink === null ? 'first' : 'second')}
</form>`,
    }
  }

  return [
    openPage({
      path: '/console/sign-in',
      name: 'signIn',
      summary: 'Sign in by e-mail or passkey',
      show: async (visit) => (visit.visitor ? goTo(homeOf(visit, visit.form.typed)) : signInView(visit)),
      act: {
        harmless: true,
        run: async (visit, typed) => {
          const email = typed.text('email')
          if (sendLink === null) return refused({ form: 'This service sends no mail.' })
          if (!isEmail(email)) return refused({ email: 'Type an e-mail address such as name@example.com.' })
          const waitS = signInDelayS(signInLimits, visit.browser.address, email)
          if (waitS > 0) return refused({ form: waitText(waitS) }, 429)
          // Mails may be late, so the secret is reused: every link that this browser requested works in it.
          const existingSecret = visit.signInRequestSecret
          const requestSecret = hashOfSecret(existingSecret) === null ? newSecret() : existingSecret!
          await sendLink(email, requestSecret)
          const cookies = [
            setCookie('asking', requestSecret, 'Strict', linkMs / 1000),
            wantedCookie(homeOf(visit, typed)),
          ]
          return { ...goTo('/console/sign-in/sent'), cookies }
        },
      },
    }),
    openPage({
      path: '/console/sign-in/passkey',
      name: 'signInPasskey',
      summary: 'Signs in with a passkey',
      act: {
        harmless: true,
        run: async (visit, typed) => {
          const waitS = signInDelayS(signInLimits, visit.browser.address)
          const cookies = waitS > 0 ? null : await signInByPasskey(visit, typed.text('answer'))
          if (cookies !== null)
            return { ...goTo(homeOf(visit, typed)), cookies: [...cookies, dropCookie('wanted')] }
          const text =
            waitS > 0 ? waitText(waitS) : 'This passkey is not known here, or the page was open for too long.'
          const view = await signInView(visit)
          const body = html`${problemsOf({ form: text })}${view.body}`
          return viewWithStatus({ ...view, body }, waitS > 0 ? 429 : 400)
        },
      },
    }),
  ]
}

const deadLink: View = {
  standalone: true,
  title: 'This link is not valid',
  body: html`<p>It was already used, or it is older than ten minutes. <a href="/console/sign-in">Request another one</a>.</p>`,
}

/** Signs in by a mailed link, or by the code that the link shows in another browser. */
export const signInLinkPages = ({
  name,
  links,
  signIn,
  signInLimits,
}: {
  /** The name of the service. */
  readonly name: string
  readonly links: Pick<Links, 'open' | 'redeem'>
  readonly signIn: SignIn
  /** Null: limits are off. */
  readonly signInLimits: SignInLimits | null
}): readonly ConsolePage[] => {
  const signedIn = (visit: Visit, cookies: readonly string[]) => ({
    ...goTo(visit.wanted),
    cookies: [...cookies, dropCookie('wanted')],
  })

  return [
    formPage(openPage, {
      path: '/console/sign-in/sent',
      name: 'signInSent',
      summary: 'A link was sent; the code of another browser',
      act: { harmless: true },
      form: (visit) =>
        pageForm({
          standalone: true,
          title: 'Check your e-mail',
          intro: html`<p>If this address has an account, we sent a link to it. The link works once, for ten minutes.</p>
<p>Open it in this browser. In another browser it shows a code, which you type here.</p>`,
          fields: {
            code: textField({
              label: 'Code',
              inputmode: 'numeric',
              autocomplete: 'one-time-code',
              required: true,
              maxlength: 20,
              parse: (text) => codeIn(text) ?? { problem: 'A code has eight digits, such as 1234 5678.' },
            }),
          },
          submit: 'Sign in',
          back: '/console/sign-in',
          backLabel: 'Send another link',
          run: async ({ code }) => {
            const waitS = signInDelayS(signInLimits, visit.browser.address)
            if (waitS > 0) return refused({ form: waitText(waitS) }, 429)
            const redeemed = await links.redeem(code, visit.signInRequestSecret)
            const cookies = redeemed && (await signIn(visit, redeemed.subjectId, 'link'))
            return cookies
              ? signedIn(visit, cookies)
              : refused({
                  code: 'This code is not valid. A code is valid for ten minutes and five attempts, in the browser that requested the link.',
                })
          },
        }),
    }),
    formPage(openPage, {
      path: '/console/sign-in/link',
      name: 'signInLink',
      summary: 'The page of a sign-in link: only its button signs in',
      act: { harmless: true },
      form: (visit) =>
        pageForm({
          standalone: true,
          title: `Sign in to ${name}`,
          intro: html`<p>Press the button to sign in. The link works once.</p>`,
          fields: { link: hiddenField(visit.query.get('link') ?? '') },
          submit: 'Sign in',
          action: '/console/sign-in/link',
          run: async ({ link }) => {
            const waitS = signInDelayS(signInLimits, visit.browser.address)
            if (waitS > 0) {
              const body = html`<p>${waitText(waitS)}</p>`
              return viewWithStatus({ ...deadLink, title: 'Too many attempts', body }, 429)
            }
            const opened = await links.open(link, visit.signInRequestSecret)
            if (opened === null) return viewWithStatus(deadLink, 409)
            if (opened.kind === 'code')
              return {
                standalone: true,
                title: 'Type this code where you requested the link',
                body: html`<p class="figure"><code>${shownCode(opened.code)}</code></p>
<p>You requested the link in another browser, so you are not signed in here. If you did not request it, close this page.</p>`,
              }
            const cookies = await signIn(visit, opened.subjectId, opened.printed ? 'cli-link' : 'link')
            return cookies === null ? viewWithStatus(deadLink, 409) : signedIn(visit, cookies)
          },
        }),
    }),
  ]
}
