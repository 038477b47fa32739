import type { z } from 'zod'
import { faultKind } from '../../platform/outgoing/fault.ts'
import type { Send } from '../../platform/outgoing/send.ts'
import { parseExactJson } from './decimal.ts'
import { GatewayUnavailable } from './port.ts'

/** A call of a provider's JSON API; null for 404. Numbers come as their texts. */
export type JsonCall = <Shape extends z.ZodType>(
  method: 'GET' | 'POST',
  path: string,
  shape: Shape,
  options?: { readonly body?: object; readonly headers?: Readonly<Record<string, string>> },
) => Promise<z.output<Shape> | null>

/** At least as many as there are: each but the first follows a comma or an opening bracket. */
const valuesAtMost = (text: string): number => {
  let values = 1
  for (let at = 0; at < text.length; at++) {
    const char = text[at]
    if (char === ',' || char === '[' || char === '{') values += 1
  }
  return values
}

/**
 * Errors name the path and the status, never what was sent or answered.
 * @param maxValues More than any real answer has. Everybody waits while an answer is read, and what that takes grows with
 *   its values: two megabytes of them, from a reseller's own server, took ten seconds.
 */
export const jsonApi = (
  name: string,
  send: Send,
  baseUrl: string,
  headers: Readonly<Record<string, string>>,
  maxValues: number,
): JsonCall => {
  const fail = (path: string, what: string): GatewayUnavailable =>
    new GatewayUnavailable(`${name} ${path.split('?', 1)[0]}: ${what}`)
  return async (method, path, shape, options = {}) => {
    const { body, headers: more } = options
    let status: number
    let text: string
    try {
      const response = await send(`${baseUrl}${path}`, {
        method,
        headers: {
          accept: 'application/json',
          ...headers,
          ...more,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      status = response.status
      text = await response.text()
    } catch (error) {
      throw fail(path, faultKind(error))
    }
    if (status === 404) return null
    if (status >= 300) throw fail(path, `status ${status}`)
    if (valuesAtMost(text) > maxValues) throw fail(path, `an answer of more than ${maxValues} values`)
    const answer = shape.safeParse(exactJsonOf(text))
    if (answer.success) return answer.data
    const field = answer.error.issues[0]?.path.join('.')
    throw fail(path, `an answer that its documentation does not have${field ? `, at ${field}` : ''}`)
  }
}

const exactJsonOf = (text: string): unknown => {
  try {
    return parseExactJson(text)
  } catch {
    return undefined
  }
}

/** A callback's body; null when it is no JSON. */
export const jsonOf = (raw: Buffer): unknown => {
  try {
    return JSON.parse(raw.toString('utf8'))
  } catch {
    return null
  }
}
