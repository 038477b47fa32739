import { type IncomingMessage, request } from 'node:http'
import { isIP } from 'node:net'

/** The way into a rental: where it is dialled, and what signs in. */
export type CheckedRental = {
  /** What a target is to see. */
  readonly ip: string
  readonly host: string
  readonly port: number
  readonly username: string
  readonly password: string
  /** Its traffic may go out from other addresses than the one that is dialled. */
  readonly rotates: boolean
}

export type CheckResult = {
  readonly success: boolean
  /** The address that the target saw; null: none answered. */
  readonly exitIp: string | null
  readonly elapsedMs: number
  readonly message: string
}

const timeoutMs = 10_000
/** An address needs far less. */
const maxAnswerBytes = 1_024
const maxMessage = 200

type Answer = { readonly status: number; readonly detail: string | null; readonly text: string }

const ask = async ({ host, port, username, password }: CheckedRental, target: URL): Promise<Answer> => {
  const signal = AbortSignal.timeout(timeoutMs)
  const login = Buffer.from(`${username}:${password}`).toString('base64')
  const sent = request({
    host,
    port,
    path: target.href,
    agent: false,
    signal,
    setHost: false,
    headers: { host: target.host, 'proxy-authorization': `Basic ${login}`, connection: 'close' },
  })
  try {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      sent.once('response', resolve).once('error', reject).end()
    })
    const chunks: Buffer[] = []
    let size = 0
    for await (const chunk of response as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > maxAnswerBytes) break
      chunks.push(chunk)
    }
    const detail = response.headers['x-proxy-detail']
    return {
      status: response.statusCode ?? 0,
      detail: typeof detail === 'string' ? detail : null,
      text: Buffer.concat(chunks).toString('utf8'),
    }
  } finally {
    sent.destroy()
  }
}

const addressIn = (text: string): string | null => {
  const address = text.trim()
  return isIP(address) === 0 ? null : address
}

const messageOf = (error: NodeJS.ErrnoException): string => {
  if (error.name === 'AbortError' || error.name === 'TimeoutError')
    return `No answer came within ${timeoutMs / 1_000} seconds.`
  return `The address cannot be connected to (${error.code ?? error.name}).`
}

/**
 * Sends one request through a rental, in at most 10 seconds, as its renter would. Never rejects.
 * @param target where it goes: an http address of the operator that answers with the address of its caller
 * @param nowMs a monotonic clock
 */
export const checkRental = async (
  rental: CheckedRental,
  target: URL,
  nowMs: () => number,
): Promise<CheckResult> => {
  const startedMs = nowMs()
  const result = (success: boolean, exitIp: string | null, message: string): CheckResult => ({
    success,
    exitIp,
    elapsedMs: Math.round(nowMs() - startedMs),
    message: message.slice(0, maxMessage),
  })
  let answer: Answer
  try {
    answer = await ask(rental, target)
  } catch (error) {
    return result(false, null, messageOf(error as NodeJS.ErrnoException))
  }
  const { status, detail, text } = answer
  if (detail !== null) return result(false, null, `The gateway answered ${status}: ${detail}`)
  const exitIp = status === 200 ? addressIn(text) : null
  if (exitIp === null)
    return result(false, null, `The target of the check answered ${status} without an address.`)
  if (exitIp === rental.ip || rental.rotates) return result(true, exitIp, 'The address carries traffic.')
  return result(false, exitIp, 'Traffic passes, but goes out from another address.')
}
