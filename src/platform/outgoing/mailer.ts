import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'

/** An e-mail: plain text, a few short lines. */
export type MailMessage = {
  readonly to: string
  readonly subject: string
  readonly text: string
  /** The same for each attempt, so that a mail system can drop a repetition; left out: a new one. */
  readonly id?: string
}

export type Mailer = {
  /**
   * Sends the e-mail in the background, with three attempts. The response time must not reveal whether an address is
   * known. An e-mail that cannot be sent is only logged, because it is worthless after ten minutes.
   */
  send(mailMessage: MailMessage): void
  /**
   * Sends the e-mail with one attempt.
   * @throws if the mail server does not accept it; the error may quote the e-mail
   */
  deliver(mailMessage: MailMessage): Promise<void>
  /** Resolves when no e-mail is being sent. */
  idle(): Promise<void>
  close(): Promise<void>
}

const attempts = 3
const pauseMs = 2_000
/** The most e-mails that are sent at the same time. Further ones are rejected and logged. */
const maxInProgress = 200

const seconds = { connectionTimeout: 10_000, greetingTimeout: 10_000, socketTimeout: 20_000 } as const

/**
 * @param smtp the mail server, such as `smtps://user:password@mail.example:465`
 * @param from the sender, such as `Farebox <console@shop.example>`
 */
export const createMailer = ({
  smtp,
  from,
  logger,
}: {
  readonly smtp: string
  readonly from: string
  readonly logger: Logger
}): Mailer => {
  // The SMTP client is loaded with the first e-mail, so that the start does not wait for it.
  const transport = async () => {
    const { createTransport } = await import('nodemailer')
    const { hostname, port, protocol, username, password } = new URL(smtp)
    const secure = protocol === 'smtps:'
    return createTransport({
      ...seconds,
      host: hostname.replace(/^\[|\]$/g, ''),
      port: port === '' ? (secure ? 465 : 587) : Number(port),
      secure,
      pool: true,
      maxConnections: 2,
      disableFileAccess: true,
      disableUrlAccess: true,
      ...(username !== '' && {
        auth: { user: decodeURIComponent(username), pass: decodeURIComponent(password) },
      }),
    })
  }
  let opened: ReturnType<typeof transport> | null = null
  const sendings = new Set<Promise<void>>()
  const stopping = new AbortController()

  const deliver = async ({ id, to, ...content }: MailMessage): Promise<void> => {
    opened ??= transport()
    await (await opened).sendMail({
      ...content,
      ...(id !== undefined && { messageId: `<${id}@${from.split('@').at(-1)?.replace('>', '')}>` }),
      // As an object, so that an address with a comma is not parsed as a list of addresses.
      to: { name: '', address: to },
      from,
    })
  }

  const deliverWithRetries = async (mailMessage: MailMessage): Promise<void> => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        await deliver(mailMessage)
        return
      } catch (error) {
        // The error of a server may quote the e-mail and so the link, so only its code is logged.
        const { code, responseCode } = error as { code?: unknown; responseCode?: unknown }
        logger.warn(
          { code, responseCode, attempt },
          'the mail server did not accept an e-mail of the console',
        )
        if (attempt === attempts || stopping.signal.aborted) return
        await sleep(pauseMs * attempt, undefined, { signal: stopping.signal }).catch(() => undefined)
      }
    }
  }

  return {
    send: (mailMessage) => {
      if (sendings.size >= maxInProgress) {
        logger.warn(
          { underWay: sendings.size },
          'an e-mail of the console is not sent: too many are in progress',
        )
        return
      }
      const sending = deliverWithRetries(mailMessage)
        .catch((err) => logger.error({ err }, 'an e-mail of the console failed'))
        .finally(() => sendings.delete(sending))
      sendings.add(sending)
    },
    deliver,
    idle: async () => {
      await Promise.all(sendings)
    },
    close: async () => {
      stopping.abort()
      await Promise.all(sendings)
      const sender = await opened?.catch(() => null)
      sender?.close()
    },
  }
}
