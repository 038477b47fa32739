import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { type Html, html } from '../platform/ui/html.ts'
import { framed } from './sandbox-pages.ts'
import { answer, type SandboxRecords } from './sandbox-store.ts'

/** A message received by SMTP: its envelope, and its header and body as text. */
export type Envelope = { readonly from: string; readonly to: readonly string[]; readonly data: string }

export type SmtpServer = {
  /** E.g. `smtp://127.0.0.1:40325`. */
  readonly url: string
  close(): Promise<void>
}

const maxLine = 4_096
const maxData = 256 * 1_024
const maxRecipients = 100

type State = { from: string | null; to: string[]; data: string[] | null; bytes: number }

const emptyState = (): State => ({ from: null, to: [], data: null, bytes: 0 })

const address = (remainder: string): string | null => /^<([^<>\s]*)>/.exec(remainder.trim())?.[1] ?? null

/** The answer to one command of a session. */
const answerTo = (state: State, line: string): string => {
  const [verb = '', ...words] = line.split(' ')
  const remainder = words.join(' ')
  switch (verb.toUpperCase()) {
    case 'EHLO':
      return `250-SANDBOX greets you\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 SIZE ${maxData}`
    case 'HELO':
      return '250 SANDBOX greets you'
    case 'MAIL': {
      const from = address(remainder.replace(/^FROM:/i, ''))
      if (from === null) return '501 MAIL FROM:<address> was expected'
      Object.assign(state, emptyState(), { from })
      return '250 2.1.0 taken'
    }
    case 'RCPT': {
      const to = address(remainder.replace(/^TO:/i, ''))
      if (state.from === null) return '503 MAIL comes first'
      if (to === null || to === '') return '501 RCPT TO:<address> was expected'
      if (state.to.length === maxRecipients) return '452 4.5.3 too many recipients'
      state.to.push(to)
      return '250 2.1.5 taken'
    }
    case 'DATA':
      if (state.to.length === 0) return '503 RCPT comes first'
      state.data = []
      return '354 end with a line that holds a dot'
    case 'RSET':
      Object.assign(state, emptyState())
      return '250 forgotten'
    case 'NOOP':
      return '250 nothing done'
    case 'VRFY':
      return '252 send it and see'
    case 'QUIT':
      return '221 SANDBOX ends'
    default:
      return '500 SANDBOX does not know this command'
  }
}

/** Serves one session: commands one after another, also several in one packet (RFC 2920). */
const serve = (socket: Socket, deliver: (envelope: Envelope) => Promise<void>): void => {
  let state = emptyState()
  let remainder = ''
  const respond = (text: string): void => {
    if (socket.writable) socket.write(`${text}\r\n`)
  }

  const line = async (text: string): Promise<void> => {
    if (state.data === null) {
      const answer = answerTo(state, text)
      respond(answer)
      if (answer.startsWith('221')) socket.end()
      return
    }
    if (text !== '.') {
      state.bytes += text.length + 2
      // RFC 5321, 4.5.2: clients double a dot at the start of a line.
      if (state.bytes <= maxData) state.data.push(text.startsWith('.') ? text.slice(1) : text)
      return
    }
    const { from, to, data, bytes } = state
    state = emptyState()
    if (bytes > maxData) return respond('552 5.3.4 too large')
    await deliver({ from: from ?? '', to, data: data.join('\r\n') })
    respond('250 2.0.0 SANDBOX keeps it; it goes nowhere')
  }

  const readCommands = async (): Promise<void> => {
    for await (const chunk of socket.setEncoding('utf8')) {
      remainder += chunk as string
      for (let end = remainder.indexOf('\n'); end !== -1; end = remainder.indexOf('\n')) {
        const text = remainder.slice(0, end).replace(/\r$/, '')
        remainder = remainder.slice(end + 1)
        await line(text)
      }
      if (remainder.length > maxLine) return respond('500 a line is too long')
    }
  }
  respond('220 SANDBOX takes mail and delivers none')
  readCommands()
    .catch(() => undefined) // the client closed the connection early
    .finally(() => socket.destroy())
}

/** Starts a mail server on a free loopback port. It passes messages to `deliver` and delivers nothing. */
export const startSmtp = async (deliver: (envelope: Envelope) => Promise<void>): Promise<SmtpServer> => {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
    socket.on('error', () => socket.destroy())
    serve(socket, deliver)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(0, '127.0.0.1', resolve)
  })
  return {
    url: `smtp://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}

/** A message that the simulated mail server received. */
export type StoredMail = {
  readonly number: number
  readonly at: string
  readonly from: string
  readonly to: readonly string[]
  readonly subject: string
  readonly text: string
}

const kind = 'letter'
/** Number of stored messages. The next message replaces the oldest. */
const maxStored = 50

const decodedText = (text: string, encoding: string): string => {
  if (encoding === 'base64') return Buffer.from(text, 'base64').toString('utf8')
  if (encoding !== 'quoted-printable') return text
  const bytes = text
    .replaceAll(/=\r?\n/g, '')
    .replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(bytes, 'latin1').toString('utf8')
}

/** Decodes a header that is not plain ASCII (RFC 2047). */
const decodedHeader = (value: string): string =>
  value
    .replaceAll(/\?=\s+=\?/g, '?==?')
    .replaceAll(/=\?utf-8\?(b|q)\?([^?]*)\?=/gi, (_, encodingFlag: string, text: string) =>
      encodingFlag.toLowerCase() === 'b'
        ? Buffer.from(text, 'base64').toString('utf8')
        : decodedText(text.replaceAll('_', ' '), 'quoted-printable'),
    )

/** Subject and text of a message with one part (RFC 5322). The service writes no other messages. */
export const parseMail = (data: string): { readonly subject: string; readonly text: string } => {
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

/** The text as HTML, with clickable links. */
const withLinks = (text: string): Html => {
  const parts: Html[] = []
  let at = 0
  for (const match of text.matchAll(link)) {
    parts.push(html`${text.slice(at, match.index)}<a href="${match[0]}" rel="noreferrer">${match[0]}</a>`)
    at = match.index + match[0].length
  }
  return html`${[...parts, html`${text.slice(at)}`]}`
}

const mailboxPage = (letters: readonly StoredMail[]): string =>
  framed({
    title: 'mailbox',
    note: 'A simulated mail server. It delivers nothing.',
    wide: true,
    body: html`<h1>Mailbox</h1>
${
  letters.length === 0
    ? html`<p class="note">Nothing yet. The console's sign-in e-mails appear here.</p>`
    : html`<ul class="cards">${letters.map(
        (letter) =>
          html`<li><b>${letter.subject}</b><small>to ${letter.to.join(', ')} · ${letter.at.slice(0, 19).replace('T', ' ')} UTC</small><p>${withLinks(letter.text)}</p></li>`,
      )}</ul>`
}
<a class="back" href="/">Everything in the sandbox</a>`,
  })

export type Mailbox = Pick<SmtpServer, 'url' | 'close'> & { routes(app: FastifyInstance): void }

/** Starts a mail server that stores its messages, and serves the page `/mail` that lists them. */
export const startMailbox = async (records: SandboxRecords, clock: () => number): Promise<Mailbox> => {
  const letters = async (): Promise<readonly StoredMail[]> =>
    (await records.all<StoredMail>(kind)).toSorted((a, b) => b.number - a.number)
  const smtp = await startSmtp(async ({ from, to, data }) => {
    const counted = await records.change<{ number: number }>('letters', 'count', (count) => ({
      number: (count?.number ?? 0) + 1,
    }))
    const number = counted?.number ?? 1
    const letter: StoredMail = {
      number,
      at: new Date(clock()).toISOString(),
      from,
      to,
      ...parseMail(data),
    }
    await records.change<StoredMail>(kind, String(number % maxStored), () => letter)
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
