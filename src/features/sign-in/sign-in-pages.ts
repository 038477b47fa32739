import { isEmail } from '../../kernel/formats.ts'
import type { Assets } from '../../platform/ui/assets.ts'
import { consolePath, dropCookie, setCookie, wantedCookie } from '../../platform/ui/cookies.ts'
import { emptyFormInput, type FormInput, fieldOf, type Problems, problemsOf } from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { html } from '../../platform/ui/html.ts'
import { type ConsolePage, goTo, openPage, refusedView, show, type Visit } from '../../platform/ui/page.ts'
import { codeIn, hashOfSecret, newSecret } from '../../platform/vault/secrets.ts'
import { codeText, passkeyButton } from './passkey-pages.ts'
import type { Passkeys } from './passkeys.ts'
import {
  type SendLink,
  type SignIn,
  type SignInByPasskey,
  type SignInLimits,
  signInDelayS,
  signInPurpose,
} from './sign-in.ts'
import { type Links, linkMs } from './sign-in-links.ts'

const waitText = (seconds: number): string =>
  `That was tried too often. Wait ${Math.ceil(seconds)} seconds and try again.`

const homeOf = (visit: Visit, typed: FormInput = emptyFormInput): string =>
  consolePath(typed.text('to') || visit.query.get('to'))

const noMailNotice = html`<p class="said warn">This service sends no mail. Ask its operator for a sign-in link, or use a passkey.</p>`

/** Sign-in by e-mail or passkey. The answer is the same for known and unknown addresses. */
export const signInPages = ({
  name,
  sendLink,
  passkeys,
  signInByPasskey,
  signInLimits,
  island,
}: {
  /** The name of the service. */
  readonly name: string
  /** Null: no mail is sent. */
  readonly sendLink: SendLink | null
  readonly passkeys: Pick<Passkeys, 'requestOptions'>
  readonly signInByPasskey: SignInByPasskey
  /** Null: limits are off. */
  readonly signInLimits: SignInLimits | null
  readonly island: Assets['island']
}): readonly ConsolePage[] => {
  const signInView = async (visit: Visit, typed: FormInput, problems: Problems): Promise<View> => {
    const returnPath = homeOf(visit, typed)
    const options = await passkeys.requestOptions(null, signInPurpose)
    return {
      alone: true,
      title: `Sign in to ${name}`,
      scripts: [island('passkey')],
      body: html`${problemsOf(problems)}
${
  sendLink === null
    ? noMailNotice
    : html`<form method="post" action="/console/sign-in" class="stack" novalidate>
<input type="hidden" name="to" value="${returnPath}">
${fieldOf({ name: 'email', label: 'E-mail', type: 'email', autocomplete: 'email', required: true, maxlength: 254 }, typed, problems)}
<div class="acts"><button class="first">Send me a link</button></div>
</form>`
}
<h2>With a passkey</h2>
<form method="post" action="/console/sign-in/passkey" class="stack">
<input type="hidden" name="to" value="${returnPath}">
${passkeyButton(options, 'Sign in with a passkey', sendLink === null ? 'first' : 'second')}
</form>`,
    }
  }

  const askForLink = async (visit: Visit, typed: FormInput) => {
    const email = typed.text('email')
    if (sendLink === null)
      return refusedView(await signInView(visit, typed, { form: 'This service sends no mail.' }))
    if (!isEmail(email))
      return refusedView(
        await signInView(visit, typed, { email: 'Type an e-mail address such as name@example.com.' }),
      )
    const waitS = signInDelayS(signInLimits, visit.browser.address, email)
    if (waitS > 0) return refusedView(await signInView(visit, typed, { form: waitText(waitS) }), 429)
    // Mails may be late, so the secret is reused: every link that this browser requested works in it.
    const existingSecret = visit.signInRequestSecret
    const requestSecret = hashOfSecret(existingSecret) === null ? newSecret() : existingSecret!
    await sendLink(email, requestSecret)
    const cookies = [
      setCookie('asking', requestSecret, 'Strict', linkMs / 1000),
      wantedCookie(homeOf(visit, typed)),
    ]
    return { ...goTo('/console/sign-in/sent'), cookies }
  }

  const byPasskey = async (visit: Visit, typed: FormInput) => {
    const waitS = signInDelayS(signInLimits, visit.browser.address)
    const cookies = waitS > 0 ? null : await signInByPasskey(visit, typed.text('answer'))
    if (cookies !== null)
      return { ...goTo(homeOf(visit, typed)), cookies: [...cookies, dropCookie('wanted')] }
    const text =
      waitS > 0 ? waitText(waitS) : 'This passkey opens nothing here, or the page was open for too long.'
    return refusedView(await signInView(visit, emptyFormInput, { form: text }), waitS > 0 ? 429 : 400)
  }

  return [
    openPage({
      path: '/console/sign-in',
      name: 'signIn',
      summary: 'Sign in by e-mail or passkey',
      show: async (visit) =>
        visit.visitor ? goTo(homeOf(visit)) : show(await signInView(visit, emptyFormInput, {})),
      act: { harmless: true, run: askForLink },
    }),
    openPage({
      path: '/console/sign-in/passkey',
      name: 'signInPasskey',
      summary: 'Signs in with a passkey',
      act: { harmless: true, run: byPasskey },
    }),
  ]
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
  const sentView = (typed: FormInput, problems: Problems): View => ({
    alone: true,
    title: 'Look into your mail',
    body: html`${problemsOf(problems)}
<p>If an account has this address, a link is on its way. It is good for ten minutes, and once.</p>
<p>Open it in this browser. If it opens in another one, that one shows a code: type it here.</p>
<form method="post" action="/console/sign-in/sent" class="stack" novalidate>
${fieldOf({ name: 'code', label: 'Code', inputmode: 'numeric', autocomplete: 'one-time-code', required: true, maxlength: 20 }, typed, problems)}
<div class="acts"><button class="first">Sign in</button> <a href="/console/sign-in">Ask again</a></div>
</form>`,
  })

  const redeemCode = async (visit: Visit, typed: FormInput) => {
    const code = codeIn(typed.text('code'))
    if (code === null)
      return refusedView(sentView(typed, { code: 'A code has eight digits, such as 1234 5678.' }))
    const waitS = signInDelayS(signInLimits, visit.browser.address)
    if (waitS > 0) return refusedView(sentView(typed, { form: waitText(waitS) }), 429)
    const redeemed = await links.redeem(code, visit.signInRequestSecret)
    const cookies = redeemed && (await signIn(visit, redeemed.subjectId, 'link'))
    if (!cookies)
      return refusedView(
        sentView(typed, {
          code: 'This code does not fit. It is good for ten minutes and five tries, in the browser that asked.',
        }),
      )
    return { ...goTo(visit.wanted), cookies: [...cookies, dropCookie('wanted')] }
  }

  const linkView = (visit: Visit): View => ({
    alone: true,
    title: `Sign in to ${name}`,
    body: html`<p>Press the button to sign in. The link is good once.</p>
<form method="post" action="/console/sign-in/link" class="stack">
<input type="hidden" name="link" value="${visit.query.get('link') ?? ''}">
<div class="acts"><button class="first">Sign in</button></div>
</form>`,
  })

  const deadLink: View = {
    alone: true,
    title: 'This link is over',
    body: html`<p>It was used, or ten minutes have passed. <a href="/console/sign-in">Ask for another one</a>.</p>`,
  }

  const openLink = async (visit: Visit, typed: FormInput) => {
    const waitS = signInDelayS(signInLimits, visit.browser.address)
    if (waitS > 0)
      return refusedView({ ...deadLink, title: 'Too many tries', body: html`<p>${waitText(waitS)}</p>` }, 429)
    const opened = await links.open(typed.text('link'), visit.signInRequestSecret)
    if (opened === null) return refusedView(deadLink, 409)
    if (opened.kind === 'code')
      return show({
        alone: true,
        title: 'Type this code where you asked for the link',
        body: html`${codeText(opened.code)}
<p>The link was asked for in another browser, so nobody is signed in here. If you did not ask for it, close this page.</p>`,
      })
    const cookies = await signIn(visit, opened.subjectId, opened.printed ? 'cli-link' : 'link')
    if (cookies === null) return refusedView(deadLink, 409)
    return { ...goTo(visit.wanted), cookies: [...cookies, dropCookie('wanted')] }
  }

  return [
    openPage({
      path: '/console/sign-in/sent',
      name: 'signInSent',
      summary: 'A link was sent; the code of another browser',
      show: async () => show(sentView(emptyFormInput, {})),
      act: { harmless: true, run: redeemCode },
    }),
    openPage({
      path: '/console/sign-in/link',
      name: 'signInLink',
      summary: 'A link was opened: looking at it does nothing, its button signs in',
      show: async (visit) => show(linkView(visit)),
      act: { harmless: true, run: openLink },
    }),
  ]
}
