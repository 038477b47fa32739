import type { FastifyInstance } from 'fastify'
import { type Html, html } from '../platform/pages/html.ts'
import { framed } from './frame.ts'
import type { Records } from './records.ts'
import { type SmtpServer, startSmtp } from './smtp.ts'
import { answer } from './till.ts'

/** A letter that the stand-in of a mail server was given. */
export type KeptLetter = {
  readonly number: number
  readonly at: string
  readonly from: string
  readonly to: readonly string[]
  readonly subject: string
  readonly text: string
}

const kind = 'letter'
/** So many are kept: the next one takes the place of the oldest. */
const kept = 50

const decodedText = (text: string, encoding: string): string => {
  if (encoding === 'base64') return Buffer.from(text, 'base64').toString('utf8')
  if (encoding !== 'quoted-printable') return text
  const bytes = text
    .replaceAll(/=\r?\n/g, '')
    .replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(bytes, 'latin1').toString('utf8')
}

/** RFC 2047: a header that is not plain ASCII. */
const decodedHeader = (value: string): string =>
  value
    .replaceAll(/\?=\s+=\?/g, '?==?')
    .replaceAll(/=\?utf-8\?(b|q)\?([^?]*)\?=/gi, (_, how: string, text: string) =>
      how.toLowerCase() === 'b'
        ? Buffer.from(text, 'base64').toString('utf8')
        : decodedText(text.replaceAll('_', ' '), 'quoted-printable'),
    )

/** Subject and text of a message of one part (RFC 5322), which is all that the service writes. */
export const readLetter = (data: string): { readonly subject: string; readonly text: string } => {
  const [head = '', ...body] = data.split('\r\n\r\n')
  const lines = head.replaceAll(/\r\n[ \t]+/g, ' ').split('\r\n')
  const header = (name: string): string =>
    lines
      .find((line) => line.toLowerCase().startsWith(`${name}:`))
      ?.slice(name.length + 1)
      .trim() ?? ''
  return {
    subject: decodedHeader(header('subject')),
    text: decodedText(body.join('\r\n\r\n'), header('content-transfer-encoding').toLowerCase()).replaceAll(
      '\r\n',
      '\n',
    ),
  }
}

const link = /https?:\/\/[^\s<>"]+/g

/** The text with its links to be pressed. */
const linked = (text: string): Html => {
  const parts: Html[] = []
  let at = 0
  for (const match of text.matchAll(link)) {
    parts.push(html`${text.slice(at, match.index)}<a href="${match[0]}" rel="noreferrer">${match[0]}</a>`)
    at = match.index + match[0].length
  }
  return html`${[...parts, html`${text.slice(at)}`]}`
}

const mailboxPage = (letters: readonly KeptLetter[]): string =>
  framed({
    title: 'mailbox',
    note: 'A stand-in for a mail server: nothing is delivered.',
    wide: true,
    body: html`<h1>Mailbox</h1>
${
  letters.length === 0
    ? html`<p class="note">Nothing yet. The console writes here when somebody asks for a sign-in link.</p>`
    : html`<ul class="cards">${letters.map(
        (letter) =>
          html`<li><b>${letter.subject}</b><small>to ${letter.to.join(', ')} · ${letter.at.slice(0, 19).replace('T', ' ')} UTC</small><p>${linked(letter.text)}</p></li>`,
      )}</ul>`
}
<a class="back" href="/">Everything in the sandbox</a>`,
  })

export type Mailbox = Pick<SmtpServer, 'url' | 'close'> & { routes(app: FastifyInstance): void }

/** A mail server that keeps what it is given, and `/mail` that shows it. */
export const startMailbox = async (records: Records, clock: () => number): Promise<Mailbox> => {
  const letters = async (): Promise<readonly KeptLetter[]> =>
    (await records.all<KeptLetter>(kind)).toSorted((a, b) => b.number - a.number)
  const smtp = await startSmtp(async ({ from, to, data }) => {
    const counted = await records.change<{ number: number }>('letters', 'count', (count) => ({
      number: (count?.number ?? 0) + 1,
    }))
    const number = counted?.number ?? 1
    const letter: KeptLetter = {
      number,
      at: new Date(clock()).toISOString(),
      from,
      to,
      ...readLetter(data),
    }
    await records.change<KeptLetter>(kind, String(number % kept), () => letter)
  })
  return {
    url: smtp.url,
    close: smtp.close,
    routes: (app) => {
      app.get('/mail', async (_request, reply) =>
        reply.type('text/html; charset=utf-8').send(mailboxPage(await letters())),
      )
      app.get('/_sandbox/mail', async (_request, reply) =>
        answer(reply, 200, { smtp: smtp.url, letters: await letters() }),
      )
    },
  }
}
