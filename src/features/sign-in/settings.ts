import { z } from 'zod'
import { isEmail, trimEnd } from '../../kernel/formats.ts'

const consoleAddress = 'an https address without a path, or http://localhost:3000'
const smtpAddress = 'an address such as smtps://user:password@mail.example:465'
const contact = 'an e-mail address such as help@shop.example, or an https address of a page'
const sender = 'an address such as console@shop.example, or Shop <console@shop.example>'

const isConsoleAddress = (value: string): boolean => {
  const url = URL.parse(value)
  if (url === null || url.pathname !== '/' || url.search !== '' || url.hash !== '' || url.username !== '')
    return false
  return url.protocol === 'https:' || (url.protocol === 'http:' && url.hostname === 'localhost')
}

const isSmtp = (value: string): boolean => {
  const url = URL.parse(value)
  return (
    url !== null && ['smtp:', 'smtps:'].includes(url.protocol) && url.hostname !== '' && url.search === ''
  )
}

const isContact = (value: string): boolean =>
  isEmail(value) || (value.startsWith('https://') && URL.canParse(value))

/** The settings of the console, part of the one schema in `src/app/config.ts`. */
export const consoleSettings = {
  FAREBOX_CONSOLE_URL: z
    .string({ error: consoleAddress })
    .refine(isConsoleAddress, consoleAddress)
    .transform((url) => trimEnd(url, '/'))
    .optional()
    .describe(
      'The address of the console; default: FAREBOX_PUBLIC_URL, else http://localhost with the port.',
    ),
  FAREBOX_SMTP_URL: z
    .string({ error: smtpAddress })
    .refine(isSmtp, smtpAddress)
    .optional()
    .describe('The mail server for e-mails of the console; default: no e-mails.'),
  FAREBOX_MAIL_FROM: z
    .string({ error: sender })
    .regex(/^(?:[^<>\p{C}]{1,100} <[^\s@<>]{1,64}@[^\s@<>]{1,189}>|[^\s@<>]{1,64}@[^\s@<>]{1,189})$/u, sender)
    .optional()
    .describe("The sender of the console's e-mails."),
  FAREBOX_CONTACT: z
    .string({ error: contact })
    .refine(isContact, contact)
    .optional()
    .describe(
      'Where customers get help, such as after a dispute; default: the address of FAREBOX_MAIL_FROM.',
    ),
} as const

type Values = z.output<z.ZodObject<typeof consoleSettings>>

/** Settings whose values are never shown. */
export const consoleSecrets: readonly string[] = ['FAREBOX_SMTP_URL']

export type ConsoleConfig = {
  /** Without a trailing slash; null: the listening address of this process, with the name localhost. */
  readonly url: string | null
  /** Null: no mail server is set. */
  readonly mail: { readonly smtp: string; readonly from: string } | null
  /** An e-mail address or an https address; null: the address of the sender. */
  readonly contact: string | null
}

/** The address of a sender such as `Shop <console@shop.example>`. */
export const addressOfSender = (from: string): string => /<([^<>]+)>$/.exec(from)?.[1] ?? from

export const consoleProblems = (env: Readonly<Record<string, string | undefined>>): string[] =>
  (env.FAREBOX_SMTP_URL === undefined) === (env.FAREBOX_MAIL_FROM === undefined)
    ? []
    : ['FAREBOX_SMTP_URL and FAREBOX_MAIL_FROM are set together, or not at all']

/** @param publicUrl `FAREBOX_PUBLIC_URL`, the default for the console's address if cookies and passkeys work there */
export const consoleConfigOf = (values: Values, publicUrl: string | null): ConsoleConfig => ({
  url: values.FAREBOX_CONSOLE_URL ?? (publicUrl !== null && isConsoleAddress(publicUrl) ? publicUrl : null),
  mail:
    values.FAREBOX_SMTP_URL === undefined || values.FAREBOX_MAIL_FROM === undefined
      ? null
      : { smtp: values.FAREBOX_SMTP_URL, from: values.FAREBOX_MAIL_FROM },
  contact: values.FAREBOX_CONTACT ?? null,
})
