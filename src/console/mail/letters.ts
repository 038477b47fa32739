import type { Letter } from './mailer.ts'

const ending = `If it was not you, do nothing: nobody gets in without this letter.`

/** The link stands on a line of its own, and is short enough not to be cut. */
export const signInLetter = (to: string, merchant: string, link: string): Letter => ({
  to,
  subject: `Sign in to ${merchant}`,
  text: `Open this link and press the button to sign in to ${merchant}:

${link}

It is good once, for ten minutes, in the browser in which it was asked for.
${ending}
`,
})

export const confirmLetter = (to: string, merchant: string, code: string): Letter => ({
  to,
  subject: `Your code for ${merchant}`,
  text: `Type this code to confirm what you are about to do in ${merchant}:

    ${code}

It is good once, for ten minutes.
If it was not you, end your sessions in the console: somebody uses one of them.
`,
})
